//! How a layer is stored: decided by its first bytes, and checked against what its media type says.

use std::fmt;
use std::path::Path;

use crate::LayersError;

/// How the tar of a layer is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

/// Enough of a file to tell what it is.
pub(crate) const MAGIC_BYTES: usize = 8;

const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// Skippable frames are of sixteen kinds; this is the rest of their magic.
const ZSTD_SKIPPABLE: &[u8] = b"\x2a\x4d\x18";

/// What a person may hand over instead of a layer. A member's name may begin so too: looked at only where there is no tar header.
const OTHERS: [(&[u8], &str); 5] = [
    (b"\xfd7zXZ\0", "a layer in xz"),
    (b"BZh", "a layer in bzip2"),
    (b"hsqs", "a squashfs image in the place of a layer"),
    (b"\x04\x22\x4d\x18", "a layer in lz4"),
    (b"{", "JSON in the place of a layer"),
];

impl Compression {
    pub(crate) fn of_magic(magic: &[u8]) -> Self {
        if magic.starts_with(GZIP) {
            return Self::Gzip;
        }
        if magic.starts_with(ZSTD)
            || (magic.first().is_some_and(|first| first >> 4 == 5) && magic[1..].starts_with(ZSTD_SKIPPABLE))
        {
            return Self::Zstd;
        }
        Self::None
    }

    /// What a layer's media type says; `None` for a type that is no layer tar. Parameters and case do not count.
    pub(crate) fn of_media_type(media_type: &str) -> Option<Self> {
        let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            "application/vnd.oci.image.layer.v1.tar"
            | "application/vnd.oci.image.layer.nondistributable.v1.tar"
            | "application/vnd.docker.image.rootfs.diff.tar"
            | "application/vnd.docker.image.rootfs.foreign.diff.tar"
            | "application/x-tar" => Some(Self::None),
            "application/vnd.oci.image.layer.v1.tar+gzip"
            | "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip"
            | "application/vnd.docker.image.rootfs.diff.tar.gzip"
            | "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip" => Some(Self::Gzip),
            "application/vnd.oci.image.layer.v1.tar+zstd"
            | "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd"
            | "application/vnd.docker.image.rootfs.diff.tar.zstd"
            | "application/vnd.docker.image.rootfs.foreign.diff.tar.zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    pub(crate) fn check(self, path: &Path, media_type: &str) -> Result<(), LayersError> {
        let expected = Self::of_media_type(media_type);
        if expected == Some(self) {
            return Ok(());
        }
        Err(LayersError::MediaType { path: path.into(), media_type: media_type.into(), expected, found: self })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "plain tar",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// What a file that holds no tar seems to be.
pub(crate) fn other_format(magic: &[u8]) -> Option<&'static str> {
    OTHERS.iter().find(|(start, _)| magic.starts_with(start)).map(|(_, what)| *what)
}

impl fmt::Display for Compression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
