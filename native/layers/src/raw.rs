//! The bytes of a layer as they are stored: read once, counted, hashed where somebody wants their digest.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use sha2::{Digest, Sha256};

use crate::layer::Inside;
use crate::part::Part;
use crate::{Layer, LayersError};

const BUFFER_BYTES: usize = 128 * 1024;
/// Opening must neither block on a FIFO nor take a terminal.
const OPEN_FILE: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Where the bytes come from.
trait Input: Read + Seek {}
impl<T: Read + Seek> Input for T {}

pub(crate) struct Raw<'a> {
    path: PathBuf,
    input: Box<dyn Input + Send + 'a>,
    size_bytes: u64,
    hasher: Option<Sha256>,
    buffer: Vec<u8>,
    position: usize,
    filled: usize,
    /// Bytes taken from `input`.
    taken: u64,
}

impl<'a> Raw<'a> {
    /// Opens a regular file, links followed, or what lies in it.
    pub(crate) fn open(layer: &Layer) -> Result<Self, LayersError> {
        let path = &layer.path;
        let failed = |error: io::Error| LayersError::io(path, error);
        let file = File::from(rustix::fs::open(path, OPEN_FILE, Mode::empty()).map_err(|error| failed(error.into()))?);
        let status = rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(LayersError::NotAFile { path: path.into() });
        }
        let size_bytes = u64::try_from(status.st_size).unwrap_or_default();
        let Some(Inside { name, offset, size_bytes: part_bytes }) = &layer.inside else {
            return Ok(Self::new(path, Box::new(file), size_bytes));
        };
        if offset.checked_add(*part_bytes).is_none_or(|end| end > size_bytes) {
            let (path, offset, file_bytes) = (path.join(name), *offset, size_bytes);
            return Err(LayersError::OutOfFile { path, offset, size_bytes: *part_bytes, file_bytes });
        }
        let part = Part::new(file, *offset, *part_bytes).map_err(failed)?;
        Ok(Self::new(&path.join(name), Box::new(part), *part_bytes))
    }

    /// `name` stands for the path in errors.
    pub(crate) fn of_bytes(name: &Path, bytes: &'a [u8]) -> Self {
        Self::new(name, Box::new(io::Cursor::new(bytes)), bytes.len() as u64)
    }

    fn new(path: &Path, input: Box<dyn Input + Send + 'a>, size_bytes: u64) -> Self {
        let buffer = vec![0; usize::try_from(size_bytes).unwrap_or(BUFFER_BYTES).clamp(1, BUFFER_BYTES)];
        Self { path: path.into(), input, size_bytes, hasher: None, buffer, position: 0, filled: 0, taken: 0 }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Every byte is hashed, and none can be skipped. To be called before anything is consumed.
    pub(crate) fn hash(&mut self) {
        let mut hasher = Sha256::new();
        hasher.update(&self.buffer[..self.filled]);
        self.hasher = Some(hasher);
    }

    /// Offset of the next byte that nobody consumed.
    pub(crate) fn offset(&self) -> u64 {
        self.taken - (self.filled - self.position) as u64
    }

    /// Bytes that were read and not consumed; empty at the end.
    pub(crate) fn chunk(&mut self) -> Result<&[u8], LayersError> {
        if self.position == self.filled {
            (self.position, self.filled) = (0, 0);
            self.filled = self.read_whole(None)?;
        }
        Ok(&self.buffer[self.position..self.filled])
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.position = (self.position + count).min(self.filled);
    }

    /// The next byte, consumed.
    pub(crate) fn byte(&mut self) -> Result<Option<u8>, LayersError> {
        let byte = self.chunk()?.first().copied();
        self.consume(1);
        Ok(byte)
    }

    /// Fills `target` unless the end comes first; how much was filled.
    pub(crate) fn read_into(&mut self, target: &mut [u8]) -> Result<usize, LayersError> {
        let buffered = (self.filled - self.position).min(target.len());
        target[..buffered].copy_from_slice(&self.buffer[self.position..self.position + buffered]);
        self.position += buffered;
        Ok(buffered + self.read_whole(Some(&mut target[buffered..]))?)
    }

    /// How many of the next `count` bytes the file lacks, where no digest wants it read to its end.
    pub(crate) fn missing(&self, count: u64) -> u64 {
        let left = self.size_bytes.saturating_sub(self.offset());
        if self.hasher.is_some() {
            0
        } else {
            count.saturating_sub(left)
        }
    }

    /// Moves on without reading, where nobody wants a digest: false where that cannot be.
    pub(crate) fn skip(&mut self, count: u64) -> Result<bool, LayersError> {
        if self.hasher.is_some() || self.position != self.filled || self.taken.saturating_add(count) > self.size_bytes {
            return Ok(false);
        }
        self.taken += count;
        self.input.seek(SeekFrom::Start(self.taken)).map_err(|error| LayersError::io(&self.path, error))?;
        Ok(true)
    }

    /// Reads what is left and gives the digest of all, lower-case hex; `None` where nobody asked for it.
    pub(crate) fn digest(&mut self) -> Result<Option<String>, LayersError> {
        if self.hasher.is_none() {
            return Ok(None);
        }
        while !self.chunk()?.is_empty() {
            self.position = self.filled;
        }
        Ok(self.hasher.take().map(|hasher| platoon_digest::hex(&hasher.finalize())))
    }

    /// Fills `target`, or the buffer, by as many reads as that takes.
    fn read_whole(&mut self, target: Option<&mut [u8]>) -> Result<usize, LayersError> {
        platoon_interrupt::check().map_err(|error| LayersError::io(&self.path, error))?;
        let target = target.unwrap_or(&mut self.buffer);
        let mut filled = 0;
        while filled < target.len() {
            match self.input.read(&mut target[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(LayersError::io(&self.path, error)),
            }
        }
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&target[..filled]);
        }
        self.taken += filled as u64;
        Ok(filled)
    }
}
