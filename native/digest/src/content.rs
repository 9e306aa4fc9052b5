//! The content hash of a task directory, rule `harbor-packager-v1` (`docs/reference/content-hash.md`).

use std::ffi::CStr;
use std::io::Read;
use std::path::Path;

use rustix::fs::FileType;
use sha2::{Digest, Sha256};

use crate::file::{hex, write_hex, Sha256Bytes};
use crate::hasher::Hasher;
use crate::ignore::{self, check_limit, IgnoreRules};
use crate::tree::{self, Entries, Root};
use crate::walk::{walk, Found, Kept, Place, Visit};
use crate::DigestError;

/// The name of the rule that this module follows; a change of any result needs another name.
pub const CONTENT_HASH_RULE: &str = "harbor-packager-v1";

/// Files and directories of the root that may enter, in order.
const CANDIDATES: [(&CStr, bool); 8] = [
    (c"README.md", false),
    (c"environment", true),
    (c"instruction.md", false),
    (c"solution", true),
    (c"steps", true),
    (c"task.toml", false),
    (c"tests", true),
    (c"trajectory.json", false),
];
/// Lines are gathered up to here before they are hashed.
const LINES_BYTES: usize = 16 * 1024;
pub(crate) const IGNORE_FILE: &str = ".gitignore";

/// A file that was read whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashedFile {
    /// Relative to the tree's root, with `/`.
    pub path: String,
    /// SHA-256 of the bytes.
    pub sha256: Sha256Bytes,
    pub size_bytes: u64,
}

/// A content hash and what it was taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashedTask {
    pub sha256: Sha256Bytes,
    /// In order of the path's code points.
    pub files: Vec<HashedFile>,
}

impl HashedTask {
    /// Of files in order of their paths.
    pub(crate) fn of(files: Vec<HashedFile>) -> Self {
        let sha256 = digest_of_files(files.iter().map(|file| (file.path.as_str(), &file.sha256)));
        Self { sha256, files }
    }

    /// The hash in lower-case hex.
    pub fn digest(&self) -> String {
        hex(&self.sha256)
    }
}

/// The content hash over paths in their order and the digests of their files.
fn digest_of_files<'a>(files: impl Iterator<Item = (&'a str, &'a Sha256Bytes)>) -> Sha256Bytes {
    let mut outer = Sha256::new();
    let mut lines = Vec::with_capacity(2 * LINES_BYTES);
    for (path, sha256) in files {
        lines.extend_from_slice(path.as_bytes());
        lines.push(0);
        let mut digest = [0; 2 * size_of::<Sha256Bytes>()];
        write_hex(sha256, &mut digest);
        lines.extend_from_slice(&digest);
        lines.push(b'\n');
        if lines.len() > LINES_BYTES {
            outer.update(&lines);
            lines.clear();
        }
    }
    outer.update(&lines);
    outer.finalize().into()
}

/// Hashes a task directory on up to `threads` threads; how many makes no difference to the result.
///
/// Modes, owners, times, empty directories and whether a file was reached through a link do not enter. Links are followed to files
/// alone; a link out of the task that would enter is an error, as is a link in the place of one of the four directories.
pub fn hash_task(task_dir: &Path, threads: usize) -> Result<HashedTask, DigestError> {
    hash_task_root(&Root::open(task_dir)?, threads)
}

pub(crate) fn hash_task_root(root: &Root, threads: usize) -> Result<HashedTask, DigestError> {
    let kept = walk_task(root, threads)?;
    let files = kept.iter().map(|(path, file)| HashedFile {
        path: path.to_owned(),
        sha256: file.sha256,
        size_bytes: file.size_bytes,
    });
    Ok(HashedTask { sha256: digest_of_files(paths_and_digests(&kept)), files: files.collect() })
}

/// The content hash alone.
pub fn content_hash(task_dir: &Path, threads: usize) -> Result<Sha256Bytes, DigestError> {
    content_hash_root(&Root::open(task_dir)?, threads)
}

pub(crate) fn content_hash_root(root: &Root, threads: usize) -> Result<Sha256Bytes, DigestError> {
    Ok(digest_of_files(paths_and_digests(&walk_task(root, threads)?)))
}

fn walk_task(root: &Root, threads: usize) -> Result<Kept<FileDigest>, DigestError> {
    let (rules, _) = read_rules(root)?;
    walk(root, candidates(root)?, threads, &HashVisit { root, rules })
}

fn paths_and_digests(kept: &Kept<FileDigest>) -> impl Iterator<Item = (&str, &Sha256Bytes)> {
    kept.iter().map(|(path, file)| (path, &file.sha256))
}

/// What `HashedFile` says beside the path.
#[derive(Default)]
struct FileDigest {
    sha256: Sha256Bytes,
    size_bytes: u64,
}

/// Hashes the files of a tree that `rules` do not leave out, those behind links included.
struct HashVisit<'a> {
    root: &'a Root,
    rules: IgnoreRules,
}

impl Visit for HashVisit<'_> {
    type Item = FileDigest;
    type Worker = Hasher;

    fn worker(&self) -> Hasher {
        Hasher::new()
    }

    fn visit(&self, place: &Place<'_>, hasher: &mut Hasher, found: &mut Found<FileDigest>) -> Result<(), DigestError> {
        if self.rules.is_ignored(place.path) {
            return Ok(());
        }
        let failed = |error| DigestError::io(self.root.name(place.path), error);
        let file = if place.kind == FileType::Symlink {
            match self.root.open_file(place.path.as_ref())? {
                Some(file) => file,
                None => return Ok(()),
            }
        } else {
            tree::open_regular(place.parent, place.name).map_err(|error| failed(error.into()))?
        };
        let number = found.push(place.path, FileDigest::default());
        let size_bytes =
            hasher.add(file, number, &mut |number, sha256| found.item_mut(number).sha256 = sha256).map_err(failed)?;
        found.item_mut(number).size_bytes = size_bytes;
        Ok(())
    }

    fn finish(&self, hasher: &mut Hasher, found: &mut Found<FileDigest>) {
        hasher.finish(&mut |number, sha256| found.item_mut(number).sha256 = sha256);
    }
}

/// The entries of a task's root that may enter.
pub(crate) fn candidates(root: &Root) -> Result<Entries, DigestError> {
    let mut entries = Entries::default();
    for (name, is_directory) in CANDIDATES {
        let shown = || root.name(name.to_string_lossy().as_ref());
        match tree::kind_at(root.as_fd(), name).map_err(|error| DigestError::io(shown(), error))? {
            Some(FileType::Symlink) if is_directory => return Err(DigestError::LinkedDirectory { path: shown() }),
            Some(kind) if is_directory == (kind == FileType::Directory) => entries.push(name, kind),
            _ => {}
        }
    }
    Ok(entries)
}

/// The patterns that decide which candidates enter, and the text of the file they stand in, if there is one.
pub(crate) fn read_rules(root: &Root) -> Result<(IgnoreRules, Option<Vec<u8>>), DigestError> {
    let path = root.name(IGNORE_FILE);
    let Some(file) = root.open_file(IGNORE_FILE.as_ref())? else {
        return Ok((IgnoreRules::default_rules(), None));
    };
    let failed = |error| DigestError::io(&path, error);
    let size_bytes = file.metadata().map_err(failed)?.len();
    check_limit(&path, "bytes of patterns", size_bytes, ignore::FILE_BYTES)?;
    let mut bytes = Vec::new();
    file.take(ignore::FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    match std::str::from_utf8(&bytes) {
        Ok(text) => IgnoreRules::parse(text, &path).map(|rules| (rules, Some(bytes))),
        Err(error) => Err(DigestError::TextNotUtf8 { path, offset: error.valid_up_to() }),
    }
}
