use std::io;
use std::path::PathBuf;

/// What can go wrong while a file or a tree is hashed.
#[derive(Debug, thiserror::Error)]
pub enum DigestError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },

    #[error("{}: not a regular file", path.display())]
    NotAFile { path: PathBuf },

    #[error("{}: {given:?} is no relative path to something within it", path.display())]
    NotWithin { path: PathBuf, given: String },

    #[error("{}: changed while it was read", path.display())]
    Changed { path: PathBuf },

    #[error("{}: a link to {target:?} leads out of the task directory", path.display())]
    EscapingLink { path: PathBuf, target: String },

    #[error("{}: a link stands where a directory of the task is expected", path.display())]
    LinkedDirectory { path: PathBuf },

    #[error("{}: a link stands where a directory of the cache is expected", path.display())]
    LinkedPlace { path: PathBuf },

    #[error("{}: a link that leads to no file is not copied", path.display())]
    LinkToNoFile { path: PathBuf },

    #[error("{}: the name is not UTF-8, which a content hash cannot spell", path.display())]
    NameNotUtf8 { path: PathBuf },

    #[error("{}: not UTF-8 from byte {offset}", path.display())]
    TextNotUtf8 { path: PathBuf, offset: usize },

    #[error("{}: deeper than {limit} directories", path.display())]
    TooDeep { path: PathBuf, limit: usize },

    #[error("{}: {found} {what}, where at most {limit} are read", path.display())]
    Limit { path: PathBuf, what: &'static str, found: u64, limit: u64 },

    #[error("{}: line {line}: pattern {pattern:?} {reason}", path.display())]
    Pattern { path: PathBuf, line: usize, pattern: String, reason: &'static str },
}

impl DigestError {
    /// Wraps an operating-system error with the path it happened at.
    pub fn io(path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Io { path: path.into(), source: source.into() }
    }
}
