//! Owner manifests, rule `platoon-owners-v1` (`docs/reference/owners.md`).

use std::io::Write;

use memchr::memchr3;

/// The name of the rule that this module follows; a change of any result needs another name.
pub const OWNERS_RULE: &str = "platoon-owners-v1";

/// The largest id: one more means "leave it" to chown.
pub const MAX_ID: u32 = 4_294_967_294;

/// A sandbox mounts its own over these.
const MOUNTED_OVER: [&[u8]; 5] = [b"/dev", b"/proc", b"/sys", b"/tmp", b"/var/tmp"];

/// The canonical bytes, and what was counted on the way. One without paths says that all is root's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerManifest {
    pub bytes: Vec<u8>,
    /// Paths in the manifest.
    pub count: usize,
    /// Paths left out because no line can hold them.
    pub unrepresentable: usize,
}

impl Default for OwnerManifest {
    fn default() -> Self {
        Self { bytes: format!("# {OWNERS_RULE}\n").into_bytes(), count: 0, unrepresentable: 0 }
    }
}

impl OwnerManifest {
    /// Adds a path (absolute, `/` between components, none at the end unless it is the root), which comes after those added before.
    ///
    /// Paths of root's and paths that a sandbox mounts over are left out.
    pub fn push(&mut self, path: &[u8], uid: u32, gid: u32) {
        if (uid == 0 && gid == 0) || is_mounted_over(path) {
            return;
        }
        if uid.max(gid) > MAX_ID || memchr3(b'\n', b'\r', 0, path).is_some() {
            self.unrepresentable += 1;
            return;
        }
        self.count += 1;
        write!(self.bytes, "{uid} {gid} ").expect("memory takes what it is given");
        self.bytes.extend_from_slice(path);
        self.bytes.push(b'\n');
    }
}

fn is_mounted_over(path: &[u8]) -> bool {
    MOUNTED_OVER
        .iter()
        .any(|mount| path.strip_prefix(*mount).is_some_and(|rest| rest.first().is_none_or(|&byte| byte == b'/')))
}
