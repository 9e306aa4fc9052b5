//! SHA-256 of one open file, and the lower-case hex spelling used everywhere.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use sha2::{Digest, Sha256};

use crate::DigestError;

/// Large enough that system calls cost nothing beside the hash, small enough for the second-level cache.
const READ_BYTES: usize = 256 * 1024;

/// Opening must neither block on a FIFO nor take a terminal.
pub(crate) const OPEN_FILE: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Lower-case hex of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|nibble| DIGITS[nibble as usize] as char).collect()
}

/// SHA-256 (lower-case hex) and size in bytes of a regular file; links are followed.
pub fn sha256_file(path: &Path) -> Result<(String, u64), DigestError> {
    let descriptor = rustix::fs::open(path, OPEN_FILE, Mode::empty()).map_err(|error| DigestError::io(path, error))?;
    Hasher::new().hash(File::from(descriptor), path)
}

/// Hashes one file after another through one buffer.
pub(crate) struct Hasher {
    buffer: Vec<u8>,
}

impl Hasher {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; READ_BYTES] }
    }

    /// `path` only names the file in errors. Anything but a regular file is refused before a byte is read.
    pub(crate) fn hash(&mut self, mut file: File, path: &Path) -> Result<(String, u64), DigestError> {
        let status = rustix::fs::fstat(&file).map_err(|error| DigestError::io(path, error))?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(DigestError::NotAFile { path: path.into() });
        }
        let mut digest = Sha256::new();
        let mut size_bytes = 0u64;
        loop {
            match file.read(&mut self.buffer) {
                Ok(0) => return Ok((hex(&digest.finalize()), size_bytes)),
                Ok(count) => {
                    digest.update(&self.buffer[..count]);
                    size_bytes += count as u64;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(DigestError::io(path, error)),
            }
        }
    }
}
