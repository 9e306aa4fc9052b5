//! gzip (RFC 1952): any number of members, each with its checksum and length; zeros after the last are padding, anything else is an error.

use crc32fast::Hasher;
use zlib_rs::{Inflate, InflateFlush, Status};

use crate::raw::Raw;
use crate::{Compression, LayersError};

const MAGIC: [u8; 2] = *b"\x1f\x8b";
const DEFLATE: u8 = 8;
const HAS_HEADER_CHECKSUM: u8 = 2;
const HAS_EXTRA: u8 = 4;
const HAS_NAME: u8 = 8;
const HAS_COMMENT: u8 = 16;
const RESERVED: u8 = 0xe0;
const WINDOW_BITS: u8 = 15;

pub(crate) struct Gzip {
    inflate: Inflate,
    checksum: Hasher,
    in_member: bool,
    ended: bool,
}

impl Gzip {
    pub(crate) fn new() -> Self {
        let inflate = Inflate::new(false, WINDOW_BITS);
        Self { inflate, checksum: Hasher::new(), in_member: false, ended: false }
    }

    /// Fills `target` unless the end comes first; how much was filled.
    pub(crate) fn fill(&mut self, raw: &mut Raw, target: &mut [u8]) -> Result<usize, LayersError> {
        let mut filled = 0;
        while filled < target.len() && !self.ended {
            if !self.in_member {
                self.start_member(raw)?;
                continue;
            }
            let chunk = raw.chunk()?;
            let (taken, given) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self.inflate.decompress(chunk, &mut target[filled..], InflateFlush::NoFlush);
            let is_at_end = chunk.is_empty();
            let (taken, given) = (self.inflate.total_in() - taken, (self.inflate.total_out() - given) as usize);
            raw.consume(taken as usize);
            self.checksum.update(&target[filled..filled + given]);
            filled += given;
            match status {
                Ok(Status::StreamEnd) => self.end_member(raw)?,
                Ok(_) if is_at_end && given == 0 => return Err(broken(raw, "ends in the middle of a member")),
                Ok(_) if taken == 0 && given == 0 => return Err(broken(raw, "does not go on")),
                Ok(_) => {}
                Err(error) => return Err(broken(raw, self.inflate.error_message().unwrap_or(error.as_str()))),
            }
        }
        Ok(filled)
    }

    /// Reads the header of the next member, or finds that there is none.
    fn start_member(&mut self, raw: &mut Raw) -> Result<(), LayersError> {
        let is_first = raw.offset() == 0;
        let mut header = Header { raw, checksum: Hasher::new() };
        let Some(first) = header.raw.byte()? else {
            self.ended = true;
            return Ok(());
        };
        if first == 0 && !is_first {
            self.ended = true;
            return only_zeros(header.raw);
        }
        header.checksum.update(&[first]);
        if [first, header.byte()?] != MAGIC {
            return Err(broken(header.raw, "neither another member nor padding follows a member"));
        }
        header.read()?;
        self.inflate.reset(false);
        self.checksum.reset();
        self.in_member = true;
        Ok(())
    }

    fn end_member(&mut self, raw: &mut Raw) -> Result<(), LayersError> {
        let mut trailer = [0; 8];
        if raw.read_into(&mut trailer)? < trailer.len() {
            return Err(broken(raw, "ends in the middle of a member"));
        }
        let [a, b, c, d, rest @ ..] = trailer;
        if u32::from_le_bytes([a, b, c, d]) != self.checksum.clone().finalize() {
            return Err(broken(raw, "the checksum of a member is wrong"));
        }
        // The length is kept modulo 2^32, by the format.
        if u32::from_le_bytes(rest) != self.inflate.total_out() as u32 {
            return Err(broken(raw, "the length of a member is wrong"));
        }
        self.in_member = false;
        Ok(())
    }
}

/// The header of a member after its magic.
struct Header<'r, 'a> {
    raw: &'r mut Raw<'a>,
    checksum: Hasher,
}

impl Header<'_, '_> {
    fn read(&mut self) -> Result<(), LayersError> {
        if self.byte()? != DEFLATE {
            return Err(broken(self.raw, "a compression method other than deflate"));
        }
        let flags = self.byte()?;
        if flags & RESERVED != 0 {
            return Err(broken(self.raw, "reserved flags are set"));
        }
        // Time, extra flags, system.
        self.skip(6)?;
        if flags & HAS_EXTRA != 0 {
            let length = u16::from_le_bytes([self.byte()?, self.byte()?]);
            self.skip(length)?;
        }
        for flag in [HAS_NAME, HAS_COMMENT] {
            if flags & flag != 0 {
                while self.byte()? != 0 {}
            }
        }
        if flags & HAS_HEADER_CHECKSUM != 0 {
            let expected = self.checksum.clone().finalize() as u16;
            if u16::from_le_bytes([self.byte()?, self.byte()?]) != expected {
                return Err(broken(self.raw, "the checksum of a header is wrong"));
            }
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, LayersError> {
        let byte = self.raw.byte()?.ok_or_else(|| broken(self.raw, "ends in the middle of a header"))?;
        self.checksum.update(&[byte]);
        Ok(byte)
    }

    fn skip(&mut self, count: u16) -> Result<(), LayersError> {
        (0..count).try_for_each(|_| self.byte().map(drop))
    }
}

/// Tapes and some writers pad with zeros, and gzip itself reads such files.
fn only_zeros(raw: &mut Raw) -> Result<(), LayersError> {
    loop {
        let chunk = raw.chunk()?;
        if chunk.is_empty() {
            return Ok(());
        }
        let zeros = chunk.iter().take_while(|&&byte| byte == 0).count();
        let is_padding = zeros == chunk.len();
        raw.consume(zeros);
        if !is_padding {
            return Err(broken(raw, "something follows the padding after the last member"));
        }
    }
}

fn broken(raw: &Raw, reason: &str) -> LayersError {
    LayersError::Compressed {
        path: raw.path().into(),
        format: Compression::Gzip,
        offset: raw.offset(),
        reason: reason.into(),
    }
}
