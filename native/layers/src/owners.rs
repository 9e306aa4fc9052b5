//! Owner manifests, rule `platoon-owners-v1` (`docs/reference/owners.md`).

use std::io::Write;

/// The name of the rule that this module follows; a change of any result needs another name.
pub const OWNERS_RULE: &str = "platoon-owners-v1";

/// The largest id: one more means "leave it" to chown.
pub const MAX_ID: u32 = 4_294_967_294;

/// A sandbox mounts its own over these.
const MOUNTED_OVER: [&[u8]; 5] = [b"/dev", b"/proc", b"/sys", b"/tmp", b"/var/tmp"];

/// Who owns one path of an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Absolute, `/` between components, none at the end unless it is the root; any bytes but NUL.
    pub path: Vec<u8>,
    pub uid: u32,
    pub gid: u32,
}

/// The canonical bytes, and what was counted on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerManifest {
    pub bytes: Vec<u8>,
    /// Paths in the manifest.
    pub count: usize,
    /// Paths left out because no line can hold them.
    pub unrepresentable: usize,
}

/// Writes the manifest of an image, in any order of its owners; of two owners of one path the later counts.
///
/// Paths of root's and paths that a sandbox mounts over are left out. An image without others has a manifest of one line.
pub fn owner_manifest(owners: impl IntoIterator<Item = Owner>) -> OwnerManifest {
    let is_listed = |owner: &Owner| !is_mounted_over(&owner.path);
    let mut owners: Vec<Owner> = owners.into_iter().filter(is_listed).collect();
    owners.sort_by(|left, right| left.path.cmp(&right.path));
    let mut manifest = OwnerManifest { bytes: format!("# {OWNERS_RULE}\n").into_bytes(), count: 0, unrepresentable: 0 };
    for (index, owner) in owners.iter().enumerate() {
        let is_later = owners.get(index + 1).is_some_and(|next| next.path == owner.path);
        if is_later || owner.uid == 0 && owner.gid == 0 {
            continue;
        }
        if !is_representable(owner) {
            manifest.unrepresentable += 1;
            continue;
        }
        manifest.count += 1;
        write!(manifest.bytes, "{} {} ", owner.uid, owner.gid).expect("memory takes what it is given");
        manifest.bytes.extend_from_slice(&owner.path);
        manifest.bytes.push(b'\n');
    }
    manifest
}

fn is_mounted_over(path: &[u8]) -> bool {
    MOUNTED_OVER
        .iter()
        .any(|mount| path.strip_prefix(*mount).is_some_and(|rest| rest.first().is_none_or(|&byte| byte == b'/')))
}

fn is_representable(owner: &Owner) -> bool {
    !owner.path.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0)) && owner.uid.max(owner.gid) <= MAX_ID
}
