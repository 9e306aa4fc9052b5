//! A table of metadata blocks, unpacked on demand.
//!
//! A block is a little-endian `u16`, the number of bytes that follow (bit 15: they are not packed), and those bytes; it unpacks to at
//! most 8,192. Blocks stand one after another, and a record may begin in one and end in the next. References name a block by where it
//! starts, so headers are walked as far as the furthest reference asks for: a reference to anything but a block's start is an error.
//!
//! At most `CACHED_BLOCKS` unpacked blocks are held. A table that fits is unpacked once; in a larger one the blocks that were not used
//! for longest make room, and a table that is unpacked `UNPACK_FACTOR` times over is refused, which bounds the work by the file's size.

use crate::compression::{Compressor, Decoder, BLOCK_BYTES};
use crate::{Fault, Source, SquashError};

/// 32 MiB, as much as the inodes of about a million files.
pub(crate) const CACHED_BLOCKS: usize = 1 << 12;
/// 512 MiB unpacked: about 16 million inodes.
pub(crate) const TABLE_BLOCKS: usize = 1 << 16;
/// A walk in the order of the writer unpacks few blocks twice.
const UNPACK_FACTOR: u64 = 8;

const HEADER_BYTES: u64 = 2;
const NOT_PACKED: u16 = 1 << 15;
/// Packed blocks are read this many bytes at a time, several in one call of the system.
const READ_BYTES: u64 = 64 * 1024;

/// A place in a table: a block by its number, and a byte of what it unpacks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) block: usize,
    pub(crate) byte: usize,
}

/// Where a block starts in the table, and which slot holds it unpacked.
struct Block {
    start: u32,
    slot: u32,
}

const NOT_HELD: u32 = u32::MAX;

struct Slot {
    block: usize,
    length: usize,
    is_recent: bool,
    bytes: Box<[u8]>,
}

pub(crate) struct Table<'a> {
    name: &'static str,
    image: Source<'a>,
    start: u64,
    end: u64,
    compressor: Compressor,
    decoder: Decoder,
    /// All blocks whose headers were walked, by start; `walked` is where the next one starts.
    blocks: Vec<Block>,
    walked: u64,
    slots: Vec<Slot>,
    capacity: usize,
    hand: usize,
    unpacked_blocks: u64,
    /// Bytes of the image from `window_start`.
    window: Vec<u8>,
    window_start: u64,
    /// A record that lies across two blocks, put together.
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
            blocks: Vec::new(),
            walked: 0,
            slots: Vec::new(),
            capacity,
            hand: 0,
            unpacked_blocks: 0,
            window: Vec::new(),
            window_start: 0,
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

    /// Unpacks every block up to the table's end, and says how many bytes that gave.
    pub(crate) fn unpack_all(&mut self) -> Result<u64, SquashError> {
        let mut bytes = 0;
        while self.start + self.walked < self.end {
            self.walk()?;
            let slot = self.slot(self.blocks.len() - 1)?;
            bytes += self.slots[slot].length as u64;
        }
        Ok(bytes)
    }

    /// The next `length` bytes (at most a block), and `position` moved past them. `record` names in errors what they are part of.
    pub(crate) fn take(
        &mut self,
        position: &mut Position,
        length: usize,
        record: &'static str,
    ) -> Result<&[u8], SquashError> {
        let slot = self.slot(position.block)?;
        let held = self.slots[slot].length;
        if position.byte > held {
            return Err(self.damaged_at(*position, Fault::PastBlock { got: position.byte, length: held }));
        }
        let from = position.byte;
        if length <= held - from {
            position.byte += length;
            return Ok(&self.slots[slot].bytes[from..from + length]);
        }
        self.join(position, length, record)?;
        Ok(&self.joined)
    }

    fn join(&mut self, position: &mut Position, length: usize, record: &'static str) -> Result<(), SquashError> {
        self.joined.clear();
        loop {
            let slot = self.slot(position.block)?;
            let slot = &self.slots[slot];
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
        let (size, _) = self.header(start)?;
        let after = start + HEADER_BYTES + u64::from(size);
        if self.start + after > self.end {
            return Err(self.damaged(start, Fault::Cut { what: self.name, of: "a metadata block" }));
        }
        // The limit on their number keeps starts below 2^30.
        self.blocks.push(Block { start: start as u32, slot: NOT_HELD });
        self.walked = after;
        Ok(())
    }

    /// The packed size of the block at `start`, and whether it is packed at all.
    fn header(&mut self, start: u64) -> Result<(u16, bool), SquashError> {
        if self.start + start + HEADER_BYTES > self.end {
            return Err(self.damaged(start, Fault::NoBlock));
        }
        let raw = self.packed(self.start + start, HEADER_BYTES as usize)?;
        let raw = u16::from_le_bytes([raw[0], raw[1]]);
        let size = raw & !NOT_PACKED;
        if size == 0 || usize::from(size) > BLOCK_BYTES {
            let rule = "a metadata block holds 1 to 8192";
            let got = u64::from(size);
            return Err(self.damaged(start, Fault::Value { field: "the number of bytes", got, rule }));
        }
        Ok((size, raw & NOT_PACKED == 0))
    }

    /// The slot that holds this block unpacked.
    fn slot(&mut self, block: usize) -> Result<usize, SquashError> {
        let slot = self.blocks[block].slot;
        if slot != NOT_HELD {
            let slot = slot as usize;
            self.slots[slot].is_recent = true;
            return Ok(slot);
        }
        self.unpack(block)
    }

    #[cold]
    fn unpack(&mut self, block: usize) -> Result<usize, SquashError> {
        let allowed = UNPACK_FACTOR * (self.blocks.len() + self.capacity) as u64;
        self.unpacked_blocks += 1;
        if self.unpacked_blocks > allowed {
            let what = "unpacked metadata blocks: references jump to and fro in one table";
            return Err(SquashError::Limit { path: self.image.path().into(), what, limit: allowed });
        }
        let start = u64::from(self.blocks[block].start);
        let (size, is_packed) = self.header(start)?;
        let slot = self.free_slot();
        let mut bytes = std::mem::take(&mut self.slots[slot].bytes);
        let unpacked = self.unpack_into(start, usize::from(size), is_packed, &mut bytes);
        self.slots[slot].bytes = bytes;
        self.slots[slot].length = unpacked?;
        self.slots[slot].block = block;
        self.slots[slot].is_recent = true;
        self.blocks[block].slot = slot as u32;
        Ok(slot)
    }

    fn unpack_into(
        &mut self,
        start: u64,
        size: usize,
        is_packed: bool,
        output: &mut [u8],
    ) -> Result<usize, SquashError> {
        let at = self.start + start + HEADER_BYTES;
        self.fill(at, size)?;
        let from = (at - self.window_start) as usize;
        let packed = &self.window[from..from + size];
        if !is_packed {
            output[..size].copy_from_slice(packed);
            return Ok(size);
        }
        match self.decoder.unpack(packed, output) {
            Ok(0) => Err(self.damaged(start, Fault::Short { got: 0, expected: 1 })),
            Ok(unpacked) => Ok(unpacked),
            Err(reason) => Err(self.damaged(start, Fault::Unpack { compressor: self.compressor.name(), reason })),
        }
    }

    /// A new slot, or the one of a block that was not used since the hand last passed it.
    fn free_slot(&mut self) -> usize {
        if self.slots.len() < self.capacity {
            let bytes = vec![0; BLOCK_BYTES].into_boxed_slice();
            self.slots.push(Slot { block: 0, length: 0, is_recent: false, bytes });
            return self.slots.len() - 1;
        }
        while std::mem::take(&mut self.slots[self.hand].is_recent) {
            self.hand = (self.hand + 1) % self.capacity;
        }
        let slot = self.hand;
        self.hand = (self.hand + 1) % self.capacity;
        let block = self.slots[slot].block;
        self.blocks[block].slot = NOT_HELD;
        slot
    }

    /// `length` bytes of the image at `at`, through the window.
    fn packed(&mut self, at: u64, length: usize) -> Result<&[u8], SquashError> {
        self.fill(at, length)?;
        let from = (at - self.window_start) as usize;
        Ok(&self.window[from..from + length])
    }

    fn fill(&mut self, at: u64, length: usize) -> Result<(), SquashError> {
        let held = self.window_start..self.window_start + self.window.len() as u64;
        if at >= held.start && at + length as u64 <= held.end {
            return Ok(());
        }
        let size = READ_BYTES.min(self.end.saturating_sub(at)).max(length as u64);
        self.window.resize(size as usize, 0);
        self.window_start = at;
        let read = self.image.read(self.name, at, &mut self.window);
        if read.is_err() {
            self.window.clear();
        }
        read
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
