//! The content hash of a task directory, rule `harbor-packager-v1` (`docs/reference/content-hash.md`).

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::FileType;
use sha2::{Digest, Sha256};

use crate::file::{hex, Hasher};
use crate::ignore::IgnoreRules;
use crate::tree::{self, Root, DEPTH_LIMIT};
use crate::DigestError;

/// The name of the rule that this module follows; a change of any result needs another name.
pub const CONTENT_HASH_RULE: &str = "harbor-packager-v1";

const ROOT_FILES: [&str; 4] = ["task.toml", "instruction.md", "README.md", "trajectory.json"];
const ROOT_DIRECTORIES: [&str; 4] = ["environment", "tests", "solution", "steps"];
const IGNORE_FILE: &str = ".gitignore";

/// A file that entered a content hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashedFile {
    /// Relative to the task, with `/`.
    pub path: String,
    /// SHA-256 of the bytes, lower-case hex.
    pub sha256: String,
    pub size_bytes: u64,
}

/// A content hash and what it was taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashedTask {
    /// Lower-case hex.
    pub digest: String,
    /// In order of the path's code points.
    pub files: Vec<HashedFile>,
}

/// Hashes a task directory.
///
/// Modes, owners, times, empty directories and whether a file was reached through a link do not enter. Links are followed to files
/// alone; a link out of the task that would enter is an error, as is a link in the place of one of the four directories.
pub fn hash_task(task_dir: &Path) -> Result<HashedTask, DigestError> {
    let root = Root::open(task_dir)?;
    let rules = read_rules(&root)?;
    let mut walk = Walk { root: &root, rules, hasher: Hasher::new(), files: Vec::new() };
    for name in ROOT_FILES {
        walk.take_file_or_link(name.to_owned())?;
    }
    for name in ROOT_DIRECTORIES {
        match tree::kind_at(root.as_fd(), name.as_ref()).map_err(|error| DigestError::io(root.name(name), error))? {
            Some(FileType::Directory) => walk.take_directory(root.as_fd(), name.as_ref(), name.to_owned(), 1)?,
            Some(FileType::Symlink) => return Err(DigestError::LinkedDirectory { path: root.name(name) }),
            _ => {}
        }
    }
    let mut files = walk.files;
    // Bytes of UTF-8 sort as code points do.
    files.sort_unstable_by(|left, right| left.path.cmp(&right.path));
    let mut outer = Sha256::new();
    for file in &files {
        outer.update(file.path.as_bytes());
        outer.update([0]);
        outer.update(file.sha256.as_bytes());
        outer.update(b"\n");
    }
    Ok(HashedTask { digest: hex(&outer.finalize()), files })
}

fn read_rules(root: &Root) -> Result<IgnoreRules, DigestError> {
    let path = root.name(IGNORE_FILE);
    let Some(mut file) = root.open_file(IGNORE_FILE.as_ref())? else {
        return Ok(IgnoreRules::default_rules());
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| DigestError::io(&path, error))?;
    match std::str::from_utf8(&bytes) {
        Ok(text) => IgnoreRules::parse(text, &path),
        Err(error) => Err(DigestError::TextNotUtf8 { path, offset: error.valid_up_to() }),
    }
}

struct Walk<'a> {
    root: &'a Root,
    rules: IgnoreRules,
    hasher: Hasher,
    files: Vec<HashedFile>,
}

impl Walk<'_> {
    fn take_directory(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &std::ffi::OsStr,
        path: String,
        depth: usize,
    ) -> Result<(), DigestError> {
        if depth > DEPTH_LIMIT {
            return Err(DigestError::TooDeep { path: self.root.name(path), limit: DEPTH_LIMIT });
        }
        let failed = |error| DigestError::io(self.root.name(&path), error);
        let directory = tree::open_directory(parent, name).map_err(failed)?;
        for entry in tree::entries(directory.as_fd()).map_err(failed)? {
            let Some(entry_name) = entry.name.to_str() else {
                return Err(DigestError::NameNotUtf8 { path: self.root.name(&path).join(&entry.name) });
            };
            let entry_path = format!("{path}/{entry_name}");
            match entry.kind {
                FileType::Directory => self.take_directory(directory.as_fd(), &entry.name, entry_path, depth + 1)?,
                FileType::Symlink => self.take_file_or_link(entry_path)?,
                FileType::RegularFile if !self.rules.is_ignored(&entry_path) => {
                    let file = tree::open_regular(directory.as_fd(), &entry.name)
                        .map_err(|error| DigestError::io(self.root.name(&entry_path), error))?;
                    self.hash(file, entry_path)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn take_file_or_link(&mut self, path: String) -> Result<(), DigestError> {
        if self.rules.is_ignored(&path) {
            return Ok(());
        }
        match self.root.open_file(path.as_ref())? {
            Some(file) => self.hash(file, path),
            None => Ok(()),
        }
    }

    fn hash(&mut self, file: File, path: String) -> Result<(), DigestError> {
        let (sha256, size_bytes) = self.hasher.hash(file, &self.root.name(&path))?;
        self.files.push(HashedFile { path, sha256, size_bytes });
        Ok(())
    }
}
