//! The decompressed tar as blocks of 512 bytes, through one buffer.

use crate::compression::{Compression, MAGIC_BYTES};
use crate::gzip::Gzip;
use crate::raw::Raw;
use crate::zstd_frames::Zstd;
use crate::{Fault, LayersError};
use sha2::{Digest, Sha256};

pub(crate) const BLOCK_BYTES: usize = 512;
/// A multiple of a block, so that none is ever in two pieces; small enough for the second-level cache.
const BUFFER_BYTES: usize = 512 * BLOCK_BYTES;

pub(crate) type Block = [u8; BLOCK_BYTES];

enum Decoder {
    Plain,
    Gzip(Box<Gzip>),
    Zstd(Zstd),
}

pub(crate) struct Window<'a> {
    raw: Raw<'a>,
    decoder: Decoder,
    magic: Vec<u8>,
    hasher: Option<Sha256>,
    buffer: Vec<u8>,
    position: usize,
    filled: usize,
    /// Offset of the first byte after the buffer.
    end: u64,
    limit: u64,
}

impl<'a> Window<'a> {
    /// Nothing has been read from `raw`.
    pub(crate) fn new(mut raw: Raw<'a>, limit: u64) -> Result<Self, LayersError> {
        let chunk = raw.chunk()?;
        let magic = chunk[..chunk.len().min(MAGIC_BYTES)].to_vec();
        let decoder = match Compression::of_magic(&magic) {
            Compression::None => Decoder::Plain,
            Compression::Gzip => Decoder::Gzip(Box::new(Gzip::new())),
            Compression::Zstd => Decoder::Zstd(Zstd::new(&raw)?),
        };
        let buffer_bytes = match decoder {
            Decoder::Plain => usize::try_from(raw.size_bytes()).unwrap_or(BUFFER_BYTES).clamp(1, BUFFER_BYTES),
            _ => BUFFER_BYTES,
        };
        let buffer = vec![0; buffer_bytes.next_multiple_of(BLOCK_BYTES)];
        Ok(Self { raw, decoder, magic, hasher: None, buffer, position: 0, filled: 0, end: 0, limit })
    }

    pub(crate) fn compression(&self) -> Compression {
        match self.decoder {
            Decoder::Plain => Compression::None,
            Decoder::Gzip(_) => Compression::Gzip,
            Decoder::Zstd(_) => Compression::Zstd,
        }
    }

    pub(crate) fn raw(&mut self) -> &mut Raw<'a> {
        &mut self.raw
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.raw.path()
    }

    /// The first bytes as they are stored.
    pub(crate) fn magic(&self) -> &[u8] {
        &self.magic
    }

    /// From now on the decompressed bytes are hashed. To be called before any is read.
    pub(crate) fn hash(&mut self) {
        self.hasher = Some(Sha256::new());
    }

    /// The digest of the decompressed bytes, lower-case hex; all must have been read.
    pub(crate) fn digest(&mut self) -> Option<String> {
        self.hasher.take().map(|hasher| platoon_digest::hex(&hasher.finalize()))
    }

    /// Offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.end - (self.filled - self.position) as u64
    }

    /// The next block, consumed; `None` at the end.
    pub(crate) fn block(&mut self) -> Result<Option<&Block>, LayersError> {
        if self.rest()?.is_empty() {
            return Ok(None);
        }
        let (start, offset) = (self.position, self.offset());
        self.position = self.filled.min(start + BLOCK_BYTES);
        match self.buffer[start..self.filled].first_chunk() {
            Some(block) => Ok(Some(block)),
            None => Err(self.cut(offset, "last block", BLOCK_BYTES - (self.filled - start))),
        }
    }

    /// Appends `count` bytes to `target` and moves on to the next block.
    pub(crate) fn take(&mut self, count: usize, target: &mut Vec<u8>) -> Result<(), LayersError> {
        let offset = self.offset();
        let mut wanted = count;
        while wanted > 0 {
            let rest = self.rest()?;
            if rest.is_empty() {
                return Err(self.cut(offset, "extended header", wanted));
            }
            let taken = rest.len().min(wanted);
            target.extend_from_slice(&rest[..taken]);
            self.position += taken;
            wanted -= taken;
        }
        self.skip((count.next_multiple_of(BLOCK_BYTES) - count) as u64, "extended header")
    }

    /// Moves on by `count` bytes of the part of that name.
    pub(crate) fn skip(&mut self, count: u64, part: &'static str) -> Result<(), LayersError> {
        let offset = self.offset();
        let mut wanted = count;
        loop {
            let taken = wanted.min((self.filled - self.position) as u64);
            self.position += taken as usize;
            wanted -= taken;
            if wanted == 0 {
                return Ok(());
            }
            let missing = if matches!(self.decoder, Decoder::Plain) { self.raw.missing(wanted) } else { 0 };
            if missing > 0 {
                return Err(self.cut(offset, part, usize::try_from(missing).unwrap_or(usize::MAX)));
            }
            let whole = wanted - wanted % BLOCK_BYTES as u64;
            if matches!(self.decoder, Decoder::Plain) && whole >= BUFFER_BYTES as u64 && self.raw.skip(whole)? {
                (self.position, self.filled) = (0, 0);
                self.end += whole;
                wanted -= whole;
            } else if self.rest()?.is_empty() {
                return Err(self.cut(offset, part, usize::try_from(wanted).unwrap_or(usize::MAX)));
            }
        }
    }

    /// What is left of the buffer, refilled where that is nothing; empty at the end.
    pub(crate) fn rest(&mut self) -> Result<&[u8], LayersError> {
        if self.position == self.filled {
            let Self { raw, decoder, buffer, .. } = self;
            platoon_interrupt::check().map_err(|error| LayersError::io(raw.path(), error))?;
            self.filled = match decoder {
                Decoder::Plain => raw.read_into(buffer)?,
                Decoder::Gzip(gzip) => gzip.fill(raw, buffer)?,
                Decoder::Zstd(zstd) => zstd.fill(raw, buffer)?,
            };
            self.position = 0;
            self.end += self.filled as u64;
            if self.end > self.limit {
                let path = self.raw.path().into();
                return Err(LayersError::Limit { path, what: "decompressed tar", limit: self.limit });
            }
            if let Some(hasher) = &mut self.hasher {
                hasher.update(&self.buffer[..self.filled]);
            }
        }
        Ok(&self.buffer[self.position..self.filled])
    }

    /// Forgets what is left of the buffer.
    pub(crate) fn drop_rest(&mut self) {
        self.position = self.filled;
    }

    fn cut(&self, offset: u64, part: &'static str, missing: usize) -> LayersError {
        LayersError::Tar { path: self.raw.path().into(), offset, fault: Fault::Cut { part, missing: missing as u64 } }
    }
}
