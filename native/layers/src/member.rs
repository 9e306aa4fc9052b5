//! One member of a tar.

/// What a member is. Sparse and contiguous files are files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    HardLink,
    Symlink,
    Character,
    Block,
    Directory,
    Fifo,
}

impl Kind {
    /// True where the format gives the member data; what a header of another kind says of its size counts for nothing.
    pub(crate) fn has_data(self) -> bool {
        self == Self::File
    }
}

/// A member as its headers describe it, extended ones applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    pub kind: Kind,
    /// As it is written: any bytes but NUL.
    pub name: &'a [u8],
    /// The target of a link, as it is written; empty for other kinds.
    pub link: &'a [u8],
    pub uid: u32,
    pub gid: u32,
    /// Bytes of data in the archive: of a sparse file, without its holes.
    pub size_bytes: u64,
    pub is_sparse: bool,
    /// Of the first header that describes it, in the decompressed tar.
    pub offset: u64,
    /// Of its data, in the decompressed tar.
    pub data_offset: u64,
}
