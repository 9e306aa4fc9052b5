//! Whether task directories still are what a list says: many at once, each with the first thing that differs.

use std::fmt;
use std::path::PathBuf;

use crate::content::{hash_task_root, HashedFile, HashedTask};
use crate::file::{hex, Sha256Bytes};
use crate::queue::in_order;
use crate::tree::Root;
use crate::DigestError;

/// What a task directory should hold. A link in its place is none.
#[derive(Debug, Clone)]
pub struct ExpectedTask {
    pub path: PathBuf,
    pub sha256: Sha256Bytes,
    /// Path and digest of each file, in order of the paths, where they are known: a difference is then told by file.
    pub files: Option<Vec<(String, Sha256Bytes)>>,
}

/// The first thing in which a task is not what it should be.
#[derive(Debug)]
pub enum Difference {
    Unreadable(DigestError),
    Digest { path: PathBuf, expected: Sha256Bytes, found: Sha256Bytes },
    File { path: PathBuf, expected: Option<Sha256Bytes>, found: Option<Sha256Bytes> },
}

impl fmt::Display for Difference {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(to),
            Self::Digest { path, expected, found } => {
                let (expected, found) = (hex(expected), hex(found));
                write!(to, "{}: its content hash is sha256:{found} where sha256:{expected} is expected", path.display())
            }
            Self::File { path, expected: Some(expected), found: Some(found) } => {
                let (expected, found) = (hex(expected), hex(found));
                write!(to, "{}: sha256:{found} where sha256:{expected} is expected", path.display())
            }
            Self::File { path, expected: Some(_), found: None } => write!(to, "{}: missing", path.display()),
            Self::File { path, .. } => write!(to, "{}: not expected", path.display()),
        }
    }
}

/// What is wrong with each task, `None` where nothing is, in the order of `tasks`. How many threads there are changes nothing else.
pub fn verify_tasks(tasks: &[ExpectedTask], threads: usize) -> Result<Vec<Option<Difference>>, DigestError> {
    let of_each = if tasks.len() > 1 { 1 } else { threads };
    let found = in_order(tasks, threads, || (), |task, ()| verify(task, of_each));
    found.map_err(|error| DigestError::io(&tasks[0].path, error))
}

fn verify(task: &ExpectedTask, threads: usize) -> Option<Difference> {
    match Root::open_itself(&task.path).and_then(|root| hash_task_root(&root, threads)) {
        Err(error) => Some(Difference::Unreadable(error)),
        Ok(found) if found.sha256 == task.sha256 => None,
        Ok(found) => Some(first_difference(task, &found)),
    }
}

fn first_difference(task: &ExpectedTask, found: &HashedTask) -> Difference {
    if let Some(expected) = &task.files {
        let mut files = found.files.iter().peekable();
        for (path, sha256) in expected {
            match files.next_if(|file| file.path <= *path) {
                Some(HashedFile { path: there, sha256: is, .. }) if there == path && is == sha256 => {}
                Some(HashedFile { path: there, sha256: is, .. }) => {
                    let expected = (there == path).then_some(*sha256);
                    return Difference::File { path: task.path.join(there), expected, found: Some(*is) };
                }
                None => {
                    return Difference::File { path: task.path.join(path), expected: Some(*sha256), found: None };
                }
            }
        }
        if let Some(file) = files.next() {
            return Difference::File { path: task.path.join(&file.path), expected: None, found: Some(file.sha256) };
        }
    }
    Difference::Digest { path: task.path.clone(), expected: task.sha256, found: found.sha256 }
}
