//! SHA-256 of open files, and the lower-case hex spelling used everywhere.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::DigestError;

/// Large enough that system calls cost nothing beside the hash, small enough for the second-level cache.
pub(crate) const READ_BYTES: usize = 256 * 1024;

/// Opening must neither block on a FIFO nor take a terminal.
pub(crate) const OPEN_FILE: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Each byte's two digits.
const HEX_PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

/// A SHA-256.
pub type Sha256Bytes = [u8; 32];

/// Lower-case hex of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = vec![0; 2 * bytes.len()];
    write_hex(bytes, &mut text);
    text.into_iter().map(char::from).collect()
}

/// The SHA-256 that 64 lower-case hex digits spell.
pub fn from_hex(text: &str) -> Option<Sha256Bytes> {
    let digit = |character: u8| match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    };
    let mut bytes = Sha256Bytes::default();
    if text.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// Lower-case hex of `bytes` into `out`, which is twice as long.
pub(crate) fn write_hex(bytes: &[u8], out: &mut [u8]) {
    for (byte, pair) in bytes.iter().zip(out.chunks_exact_mut(2)) {
        pair.copy_from_slice(&HEX_PAIRS[usize::from(*byte)]);
    }
}

/// SHA-256 of bytes at hand, end to end.
pub fn sha256_bytes<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Sha256Bytes {
    let mut digest = Sha256::new();
    parts.into_iter().for_each(|part| digest.update(part));
    digest.finalize().into()
}

/// SHA-256 and size in bytes of a regular file; links are followed.
pub fn sha256_file(path: &Path) -> Result<(Sha256Bytes, u64), DigestError> {
    let (file, size_bytes) = open_following(path)?;
    Reader::new().hash(file, size_bytes).map_err(|error| DigestError::io(path, error))
}

/// The name git gives a regular file of this content: SHA-1 over `blob <size>`, NUL and the bytes. Links are followed.
pub fn git_blob_sha1(path: &Path) -> Result<[u8; 20], DigestError> {
    let (file, size_bytes) = open_following(path)?;
    let mut digest = Sha1::new();
    digest.update(format!("blob {size_bytes}\0"));
    let read = Reader::new().read_all(file, size_bytes, |bytes| {
        digest.update(bytes);
        Ok(())
    });
    match read {
        Ok(read_bytes) if read_bytes == size_bytes => Ok(digest.finalize().into()),
        // Its size stands before its bytes.
        Ok(_) => Err(DigestError::Changed { path: path.into() }),
        Err(error) => Err(DigestError::io(path, error)),
    }
}

/// Opens a regular file for reading, links followed; its size comes with it.
pub(crate) fn open_following(path: &Path) -> Result<(File, u64), DigestError> {
    let opened = rustix::fs::open(path, OPEN_FILE, Mode::empty()).map_err(|error| DigestError::io(path, error))?;
    let status = status_of_regular(&opened, || path.into())?;
    Ok((File::from(opened), status.size_bytes))
}

/// What an open regular file is; `mode` has its permission bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileStatus {
    pub(crate) size_bytes: u64,
    pub(crate) mode: u32,
}

/// Anything but a regular file is refused, before a byte of it is read; `name` names it then.
pub(crate) fn status_of_regular(file: impl AsFd, name: impl Fn() -> PathBuf) -> Result<FileStatus, DigestError> {
    let status = rustix::fs::fstat(file).map_err(|error| DigestError::io(name(), error))?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(DigestError::NotAFile { path: name() });
    }
    Ok(FileStatus { size_bytes: u64::try_from(status.st_size).unwrap_or_default(), mode: status.st_mode & 0o7777 })
}

/// Reads one file after another through one buffer.
pub(crate) struct Reader {
    buffer: Vec<u8>,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; READ_BYTES] }
    }

    /// SHA-256 and size of an open file; `size_bytes` is what it was said to have.
    pub(crate) fn hash(&mut self, file: impl Read, size_bytes: u64) -> std::io::Result<(Sha256Bytes, u64)> {
        let mut digest = Sha256::new();
        let size_bytes = self.read_all(file, size_bytes, |bytes| {
            digest.update(bytes);
            Ok(())
        })?;
        Ok((digest.finalize().into(), size_bytes))
    }

    /// Hands the bytes of `file` to `take` piece by piece; how many there were.
    ///
    /// A file of the size it had when it was opened is read without asking for its end; one that is longer or shorter by now, and one
    /// whose size says nothing (zero), is read until there is no more.
    pub(crate) fn read_all(
        &mut self,
        mut file: impl Read,
        size_bytes: u64,
        mut take: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> std::io::Result<u64> {
        let mut total = 0u64;
        loop {
            platoon_interrupt::check()?;
            match file.read(&mut self.buffer) {
                Ok(0) => return Ok(total),
                Ok(count) => {
                    take(&self.buffer[..count])?;
                    total += count as u64;
                    if total == size_bytes && count < self.buffer.len() {
                        return Ok(total);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
