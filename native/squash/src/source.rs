//! Positioned reads inside a stated window of a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::SquashError;

/// Bytes that can be read at any place, without a position that moves.
pub trait ReadAt {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}

impl ReadAt for &[u8] {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let part = start.checked_add(buffer.len()).and_then(|end| self.get(start..end));
        buffer.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A regular file opened to be read, with its size and the name it goes by in errors.
pub struct ImageFile {
    file: File,
    path: PathBuf,
    size_bytes: u64,
}

impl ImageFile {
    /// Links are followed; anything but a regular file is refused before a byte is read, and a FIFO does not block.
    pub fn open(path: &Path) -> Result<Self, SquashError> {
        let failed = |source| SquashError::Io { path: path.into(), source };
        let flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).custom_flags(flags.bits() as i32).open(path).map_err(failed)?;
        let status = file.metadata().map_err(failed)?;
        if !status.is_file() {
            return Err(SquashError::NotAFile { path: path.into() });
        }
        Ok(Self { file, path: path.into(), size_bytes: status.len() })
    }

    /// The whole file.
    pub fn source(&self) -> Source<'_> {
        Source { reader: &self.file, path: &self.path, start: 0, size_bytes: self.size_bytes }
    }
}

/// A window of a file. Offsets count from its start; nothing outside it is read.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    reader: &'a dyn ReadAt,
    path: &'a Path,
    start: u64,
    size_bytes: u64,
}

impl<'a> Source<'a> {
    /// `size_bytes` of `reader` from its start; `path` only names it in errors.
    pub fn new(reader: &'a dyn ReadAt, path: &'a Path, size_bytes: u64) -> Self {
        Self { reader, path, start: 0, size_bytes }
    }

    pub fn path(&self) -> &'a Path {
        self.path
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Where byte `offset` of this window lies in the file.
    pub(crate) fn in_file(&self, offset: u64) -> u64 {
        self.start.saturating_add(offset)
    }

    /// The window from `offset` to the end of this one.
    pub fn from(&self, offset: u64) -> Result<Self, SquashError> {
        let size_bytes = self.size_bytes.checked_sub(offset);
        let size_bytes = size_bytes.ok_or_else(|| self.outside("the image", offset, 1))?;
        Ok(Self { start: self.start + offset, size_bytes, ..*self })
    }

    /// The window of `size_bytes` at `offset`; `part` names it in the error when it does not fit.
    pub fn part(&self, part: &str, offset: u64, size_bytes: u64) -> Result<Self, SquashError> {
        match offset.checked_add(size_bytes) {
            Some(end) if end <= self.size_bytes => Ok(Self { start: self.start + offset, size_bytes, ..*self }),
            _ => Err(self.outside(part, offset, size_bytes)),
        }
    }

    /// Fills `buffer` from `offset`.
    pub(crate) fn read(&self, part: &str, offset: u64, buffer: &mut [u8]) -> Result<(), SquashError> {
        let window = self.part(part, offset, buffer.len() as u64)?;
        self.reader.read_exact_at(buffer, window.start).map_err(|source| match source.kind() {
            // The file shrank after its size was taken.
            io::ErrorKind::UnexpectedEof => self.outside(part, offset, window.size_bytes),
            _ => SquashError::Io { path: self.path.into(), source },
        })
    }

    /// The bytes of the whole window, which the caller has bounded.
    pub(crate) fn bytes(&self, part: &str) -> Result<Vec<u8>, SquashError> {
        let mut bytes = vec![0; self.size_bytes as usize];
        self.read(part, 0, &mut bytes)?;
        Ok(bytes)
    }

    fn outside(&self, part: &str, offset: u64, size_bytes: u64) -> SquashError {
        SquashError::OutOfFile {
            path: self.path.into(),
            part: part.into(),
            offset: self.in_file(offset),
            size_bytes,
            end: self.in_file(self.size_bytes),
        }
    }
}
