use std::io;
use std::path::PathBuf;

use crate::Compression;

/// What can go wrong while layers are read. Offsets of headers are bytes of the decompressed tar.
#[derive(Debug, thiserror::Error)]
pub enum LayersError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },

    #[error("{}: not a regular file", path.display())]
    NotAFile { path: PathBuf },

    #[error("{}: {what} is not read here", path.display())]
    Unsupported { path: PathBuf, what: String },

    #[error("{}: the media type {media_type} says {}, the first bytes say {found}", path.display(), says(*expected))]
    MediaType { path: PathBuf, media_type: String, expected: Option<Compression>, found: Compression },

    #[error("{}: {format} at byte {offset}: {reason}", path.display())]
    Compressed { path: PathBuf, format: Compression, offset: u64, reason: String },

    #[error("{}: {got} bytes, where the manifest says {expected}", path.display())]
    Size { path: PathBuf, got: u64, expected: u64 },

    #[error("{}: {size_bytes} bytes at byte {offset} do not fit in a file of {file_bytes}", path.display())]
    OutOfFile { path: PathBuf, offset: u64, size_bytes: u64, file_bytes: u64 },

    #[error("{}: the {what} is {got}, where {expected} is expected", path.display())]
    Digest { path: PathBuf, what: &'static str, got: String, expected: String },

    #[error("{}: tar at byte {offset}: {fault}", path.display())]
    Tar { path: PathBuf, offset: u64, fault: Fault },

    #[error("{}: entry \"{entry}\" at byte {offset}: {fault}", path.display())]
    Entry { path: PathBuf, offset: u64, entry: String, fault: Fault },

    #[error("{}: more than {limit} bytes of {what}", path.display())]
    Limit { path: PathBuf, what: &'static str, limit: u64 },
}

/// How a header, or what follows it, breaks the rules of its format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the checksum is {got}, the header says {expected}")]
    Checksum { got: u32, expected: u64 },

    #[error("no header begins here, so this is no tar")]
    NoTar,

    #[error("{field} is \"{got}\", no number")]
    Number { field: &'static str, got: String },

    #[error("{field} is {got}, above {limit}")]
    Above { field: &'static str, got: u64, limit: u64 },

    #[error("type '{got}' is not read here")]
    Kind { got: String },

    #[error("ends {missing} bytes too early in its {part}")]
    Cut { part: &'static str, missing: u64 },

    #[error("ends without the blocks of zeros that end an archive, and no digest says that it is whole")]
    NoEnd,

    #[error("a lone block of zeros is followed by something else")]
    LoneZeroBlock,

    #[error("something follows the end of the archive")]
    AfterEnd,

    #[error("an extended header describes no member")]
    Dangling,

    #[error("two headers give its {what}")]
    Twice { what: &'static str },

    #[error("a record {reason}")]
    Record { reason: &'static str },

    #[error("the record {key} {reason}")]
    Key { key: String, reason: &'static str },

    #[error("the name {reason}")]
    Name { reason: &'static str },

    #[error("the link target {reason}")]
    Target { reason: &'static str },

    #[error("sparse format {got} is not read here")]
    Sparse { got: String },

    #[error("its path passes more than {limit} symbolic links")]
    LinkLoop { limit: usize },

    #[error("to find its place takes more names of link targets than the members up to here may take together")]
    LinkNames,
}

impl LayersError {
    pub(crate) fn io(path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Io { path: path.into(), source: source.into() }
    }

    /// True where the bytes of a layer are at fault rather than the system or a limit of ours.
    pub(crate) fn is_of_content(&self) -> bool {
        matches!(self, Self::Compressed { .. } | Self::Tar { .. } | Self::Entry { .. })
    }
}

fn says(expected: Option<Compression>) -> &'static str {
    expected.map_or("nothing known here", Compression::name)
}

/// Bytes of a name as one line for a person.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 200;
    let text = bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii().to_string();
    if bytes.len() > SHOWN_BYTES {
        text + "..."
    } else {
        text
    }
}
