use std::io;
use std::path::PathBuf;

/// What can go wrong while an image is read. Offsets are bytes from the start of the file.
#[derive(Debug, thiserror::Error)]
pub enum SquashError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },

    #[error("{}: not a regular file", path.display())]
    NotAFile { path: PathBuf },

    #[error("{}: {expected} is expected at byte {offset}, where {:?} stands", path.display(), got.escape_ascii().to_string())]
    Magic { path: PathBuf, expected: &'static str, offset: u64, got: Vec<u8> },

    #[error("{}: {what} is not read here", path.display())]
    Unsupported { path: PathBuf, what: String },

    #[error("{}: {part}: {size_bytes} bytes at byte {offset} do not fit before byte {end}, where the image ends", path.display())]
    OutOfFile { path: PathBuf, part: String, offset: u64, size_bytes: u64, end: u64 },

    #[error("{}: {part} at byte {offset}: {fault}", path.display())]
    Damaged { path: PathBuf, part: String, offset: u64, fault: Fault },

    #[error("{}: more than {limit} {what}", path.display())]
    Limit { path: PathBuf, what: &'static str, limit: u64 },
}

/// How a part of an image breaks the rules of its format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{field} is {got}, where {rule}")]
    Value { field: &'static str, got: u64, rule: &'static str },

    #[error("no metadata block starts here")]
    NoBlock,

    #[error("does not unpack with {compressor}: {reason}")]
    Unpack { compressor: &'static str, reason: String },

    #[error("unpacks to {got} bytes, where {expected} are needed")]
    Short { got: usize, expected: usize },

    #[error("unpacked byte {got} is named in a block of {length}")]
    PastBlock { got: usize, length: usize },

    #[error("{what} ends in the middle of {of}")]
    Cut { what: &'static str, of: &'static str },

    #[error("the directory says type {entry}, its inode says {inode}")]
    TypeDiffers { entry: u16, inode: u16 },

    #[error("owner or group number {index} of a table of {count}")]
    UnknownId { index: u16, count: usize },

    #[error("the name {name:?} {rule}")]
    Name { name: String, rule: &'static str },

    #[error("this directory was listed before: a loop, or a directory with two names")]
    ListedBefore,

    #[error("its bytes were listed before: listings overlap")]
    Overlap,

    #[error("{got}, where {expected} is expected")]
    Text { got: String, expected: String },

    #[error("not the JSON it should be: {reason}")]
    Json { reason: String },
}
