//! A table of metadata blocks, unpacked on demand.
//!
//! A block is a little-endian `u16`, the number of bytes that follow (bit 15: they are not packed), and those bytes; it unpacks to at
//! most 8,192. Blocks stand one after another, and a record may begin in one and end in the next. References name a block by where it
//! starts, so headers are walked as far as the furthest reference asks for: a reference to anything but a block's start is an error.
//!
//! At most `CACHED_BLOCKS` unpacked blocks are held: a table that fits is unpacked once. A table that is unpacked `UNPACK_FACTOR` times
//! over is refused, which bounds the work by the size of the file.

use crate::compression::{Compressor, Decoder, BLOCK_BYTES};
use crate::slots::Slots;
use crate::window::Window;
use crate::{Fault, Source, SquashError};

/// 32 MiB, as much as the inodes of about a million files.
pub(crate) const CACHED_BLOCKS: usize = 1 << 12;
/// 512 MiB unpacked: about 16 million inodes.
const TABLE_BLOCKS: usize = 1 << 16;
/// A walk in the order of the writer unpacks few blocks twice.
const UNPACK_FACTOR: u64 = 4;

const HEADER_BYTES: u64 = 2;
const NOT_PACKED: u16 = 1 << 15;

/// A place in a table: a block by its number, and a byte of what it unpacks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) block: usize,
    pub(crate) byte: usize,
}

/// Where a block starts in the table, and which slot holds it unpacked.
struct Block {
    start: u32,
    slot: Option<u32>,
}

struct Header {
    size: usize,
    is_packed: bool,
}

pub(crate) struct Table<'a> {
    name: &'static str,
    image: Source<'a>,
    start: u64,
    end: u64,
    compressor: Compressor,
    decoder: Decoder,
    packed: Window<'a>,
    /// All blocks whose headers were walked, by start; `walked` is where the next one starts.
    blocks: Vec<Block>,
    walked: u64,
    slots: Slots,
    unpacked_blocks: u64,
    /// A record that lies across blocks, put together.
    joined: Vec<u8>,
}

impl<'a> Table<'a> {
    /// The table at `start..end` of `image`; nothing is read yet. `name` stands in errors.
    pub(crate) fn new(
        name: &'static str,
        image: Source<'a>,
        (start, end): (u64, u64),
        compressor: Compressor,
        capacity: usize,
    ) -> Result<Self, SquashError> {
        let decoder =
            Decoder::new(compressor).map_err(|source| SquashError::Io { path: image.path().into(), source })?;
        Ok(Self {
            name,
            image,
            start,
            end,
            compressor,
            decoder,
            packed: Window::new(name, image, end),
            blocks: Vec::new(),
            walked: 0,
            slots: Slots::new(capacity),
            unpacked_blocks: 0,
            joined: Vec::new(),
        })
    }

    /// The number of the block that starts `start` bytes into the table.
    pub(crate) fn block_at(&mut self, start: u64) -> Result<usize, SquashError> {
        if start >= self.end - self.start {
            return Err(self.damaged(start, Fault::NoBlock));
        }
        while self.walked <= start {
            self.walk()?;
        }
        let found = self.blocks.binary_search_by_key(&start, |block| u64::from(block.start));
        found.map_err(|_| self.damaged(start, Fault::NoBlock))
    }

    /// The place of a byte in the block that starts `start` bytes into the table.
    pub(crate) fn position(&mut self, start: u64, byte: u16) -> Result<Position, SquashError> {
        Ok(Position { block: self.block_at(start)?, byte: byte.into() })
    }

    /// Bytes that the blocks walked so far can unpack to at most.
    pub(crate) fn walked_bytes(&self) -> u64 {
        (self.blocks.len() * BLOCK_BYTES) as u64
    }

    /// The next `length` bytes (at most a block), and `position` moved past them. `record` names in errors what they are part of.
    pub(crate) fn take(
        &mut self,
        position: &mut Position,
        length: usize,
        record: &'static str,
    ) -> Result<&[u8], SquashError> {
        let slot = self.slot(position.block)?;
        let held = self.slots.get(slot).length;
        if position.byte > held {
            return Err(self.damaged_at(*position, Fault::PastBlock { got: position.byte, length: held }));
        }
        let from = position.byte;
        if length <= held - from {
            position.byte += length;
            return Ok(&self.slots.get(slot).bytes[from..from + length]);
        }
        self.join(position, length, record)?;
        Ok(&self.joined)
    }

    fn join(&mut self, position: &mut Position, length: usize, record: &'static str) -> Result<(), SquashError> {
        self.joined.clear();
        loop {
            let slot = self.slot(position.block)?;
            let slot = self.slots.get(slot);
            let wanted = (length - self.joined.len()).min(slot.length - position.byte);
            self.joined.extend_from_slice(&slot.bytes[position.byte..position.byte + wanted]);
            position.byte += wanted;
            if self.joined.len() == length {
                return Ok(());
            }
            *position = Position { block: position.block + 1, byte: 0 };
            if position.block == self.blocks.len() {
                if self.start + self.walked >= self.end {
                    return Err(self.damaged(self.walked, Fault::Cut { what: self.name, of: record }));
                }
                self.walk()?;
            }
        }
    }

    /// Looks at the header of the next block.
    fn walk(&mut self) -> Result<(), SquashError> {
        if self.blocks.len() == TABLE_BLOCKS {
            let path = self.image.path().into();
            return Err(SquashError::Limit { path, what: "metadata blocks in one table", limit: TABLE_BLOCKS as u64 });
        }
        let start = self.walked;
        let after = start + HEADER_BYTES + self.header(start)?.size as u64;
        if self.start + after > self.end {
            return Err(self.damaged(start, Fault::Cut { what: self.name, of: "a metadata block" }));
        }
        // The limit on their number keeps starts below 2^30.
        self.blocks.push(Block { start: start as u32, slot: None });
        self.walked = after;
        Ok(())
    }

    /// The header of the block at `start`.
    fn header(&mut self, start: u64) -> Result<Header, SquashError> {
        if self.start + start + HEADER_BYTES > self.end {
            return Err(self.damaged(start, Fault::NoBlock));
        }
        let raw = self.packed.bytes(self.start + start, HEADER_BYTES as usize)?;
        let raw = u16::from_le_bytes([raw[0], raw[1]]);
        let size = usize::from(raw & !NOT_PACKED);
        if size == 0 || size > BLOCK_BYTES {
            let rule = "a metadata block holds 1 to 8192";
            return Err(self.damaged(start, Fault::Value { field: "the number of bytes", got: size as u64, rule }));
        }
        Ok(Header { size, is_packed: raw & NOT_PACKED == 0 })
    }

    /// The slot that holds this block unpacked.
    fn slot(&mut self, block: usize) -> Result<usize, SquashError> {
        match self.blocks[block].slot {
            Some(slot) => Ok(slot as usize),
            None => self.unpack(block),
        }
    }

    #[cold]
    fn unpack(&mut self, block: usize) -> Result<usize, SquashError> {
        let allowed = UNPACK_FACTOR * (self.blocks.len() + self.slots.capacity()) as u64;
        self.unpacked_blocks += 1;
        if self.unpacked_blocks > allowed {
            let what = "unpacked metadata blocks: references jump to and fro in one table";
            return Err(SquashError::Limit { path: self.image.path().into(), what, limit: allowed });
        }
        let start = u64::from(self.blocks[block].start);
        let header = self.header(start)?;
        let (slot, leaving) = self.slots.take(block);
        if let Some(leaving) = leaving {
            self.blocks[leaving].slot = None;
        }
        self.unpack_into(slot, start, &header)?;
        self.blocks[block].slot = Some(slot as u32);
        Ok(slot)
    }

    fn unpack_into(&mut self, slot: usize, start: u64, header: &Header) -> Result<(), SquashError> {
        let packed = self.packed.bytes(self.start + start + HEADER_BYTES, header.size)?;
        let slot = self.slots.unpacked(slot);
        slot.length = 0;
        if !header.is_packed {
            slot.bytes[..header.size].copy_from_slice(packed);
            slot.length = header.size;
            return Ok(());
        }
        match self.decoder.unpack(packed, &mut slot.bytes) {
            Ok(0) => Err(self.damaged(start, Fault::Short { got: 0, expected: 1 })),
            Ok(length) => {
                slot.length = length;
                Ok(())
            }
            Err(reason) => Err(self.damaged(start, Fault::Unpack { compressor: self.compressor.name(), reason })),
        }
    }

    /// An error at the block that starts `start` bytes into the table.
    pub(crate) fn damaged(&self, start: u64, fault: Fault) -> SquashError {
        SquashError::Damaged {
            path: self.image.path().into(),
            part: self.name.into(),
            offset: self.image.in_file(self.start + start),
            fault,
        }
    }

    /// Where the block of `position` starts in the file.
    pub(crate) fn offset_of(&self, position: Position) -> u64 {
        let start = self.blocks.get(position.block).map_or(self.walked, |block| block.start.into());
        self.image.in_file(self.start + start)
    }

    /// An error at a byte of what a block unpacks to.
    pub(crate) fn damaged_at(&self, position: Position, fault: Fault) -> SquashError {
        SquashError::Damaged {
            path: self.image.path().into(),
            part: format!("{}, unpacked byte {} of the block", self.name, position.byte),
            offset: self.offset_of(position),
            fault,
        }
    }
}
