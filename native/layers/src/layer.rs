//! A layer as a manifest names it.

use std::path::PathBuf;

use crate::LayersError;

/// A file within an uncompressed tar. Errors name it by the path of the tar with the name after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    pub name: PathBuf,
    pub offset: u64,
    pub size_bytes: u64,
}

/// A layer and what is known of it. Digests are `sha256:` and 64 lower-case hex digits.
#[derive(Debug, Clone, Default)]
pub struct Layer {
    pub path: PathBuf,
    /// Where in the file it lies; the file is the layer without it.
    pub inside: Option<Inside>,
    pub media_type: Option<String>,
    pub size_bytes: Option<u64>,
    /// Of the file as it is stored.
    pub digest: Option<String>,
    /// Of the decompressed tar.
    pub diff_id: Option<String>,
}

impl Layer {
    /// A file of which nothing else is known.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }
}

pub(crate) fn check_digest(layer: &Layer, digest: &str) -> Result<(), LayersError> {
    let hex = digest.strip_prefix("sha256:").unwrap_or_default();
    if hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Ok(());
    }
    Err(LayersError::Unsupported { path: layer.path.clone(), what: format!("the digest {digest:?}") })
}
