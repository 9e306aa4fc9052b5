//! Listings of the directory table.
//!
//! A listing is groups of a header and up to 256 entries, in ascending order of their names.
//!
//! | header | width | field |
//! |---|---|---|
//! | 0 | 4 | entries that follow, less 1 |
//! | 4 | 4 | block of the inode table that holds their inodes |
//! | 8 | 4 | inode number that they count from |
//!
//! | entry | width | field |
//! |---|---|---|
//! | 0 | 2 | byte of the unpacked block where the inode starts |
//! | 2 | 2 | inode number, relative and signed |
//! | 4 | 2 | basic type |
//! | 6 | 2 | length of the name, less 1 |
//! | 8 | | the name, any bytes but `/` and NUL |

use crate::bytes::{u16_at, u32_at};
use crate::inode::Listing;
use crate::metadata::{Position, Table};
use crate::{Fault, SquashError};

const HEADER_BYTES: u32 = 12;
const ENTRY_BYTES: u32 = 8;
const GROUP_ENTRIES: u32 = 256;
const NAME_BYTES: u32 = 256;

/// Where the reading of one listing stands.
pub(crate) struct Cursor {
    position: Position,
    bytes_left: u32,
    group_left: u32,
    inode_block: usize,
}

/// One entry: its name, which no rule was applied to, its basic type, and where its inode is.
pub(crate) struct Entry<'t> {
    pub(crate) name: &'t [u8],
    pub(crate) kind: u16,
    pub(crate) inode: Position,
}

/// The directory table. No byte of it is listed twice, so the work is bounded by its size.
pub(crate) struct Directories<'a> {
    table: Table<'a>,
    listed_bytes: u64,
}

impl<'a> Directories<'a> {
    pub(crate) fn new(table: Table<'a>) -> Self {
        Self { table, listed_bytes: 0 }
    }

    pub(crate) fn open(&mut self, listing: Listing) -> Result<Cursor, SquashError> {
        // An empty listing may point past the last block.
        let position = match listing.size {
            0 => Position { block: 0, byte: 0 },
            _ => self.table.position(listing.start.block, listing.start.byte)?,
        };
        Ok(Cursor { position, bytes_left: listing.size, group_left: 0, inode_block: 0 })
    }

    /// The next entry, None at the end of the listing.
    pub(crate) fn next(&mut self, cursor: &mut Cursor, inodes: &mut Table) -> Result<Option<Entry<'_>>, SquashError> {
        if cursor.group_left == 0 {
            if cursor.bytes_left == 0 {
                return Ok(None);
            }
            self.read_header(cursor, inodes)?;
        }
        let at = cursor.position;
        self.spend(cursor, ENTRY_BYTES, "an entry")?;
        let raw = self.table.take(&mut cursor.position, ENTRY_BYTES as usize, "an entry")?;
        let (byte, kind, name_length) = (u16_at(raw, 0), u16_at(raw, 4), u32::from(u16_at(raw, 6)) + 1);
        if name_length > NAME_BYTES {
            let rule = "a name has at most 256 bytes";
            let fault = Fault::Value { field: "the length of a name", got: name_length.into(), rule };
            return Err(self.table.damaged_at(at, fault));
        }
        self.spend(cursor, name_length, "a name")?;
        cursor.group_left -= 1;
        let inode = Position { block: cursor.inode_block, byte: byte.into() };
        let name = self.table.take(&mut cursor.position, name_length as usize, "a name")?;
        Ok(Some(Entry { name, kind, inode }))
    }

    fn read_header(&mut self, cursor: &mut Cursor, inodes: &mut Table) -> Result<(), SquashError> {
        let at = cursor.position;
        self.spend(cursor, HEADER_BYTES, "a header")?;
        let raw = self.table.take(&mut cursor.position, HEADER_BYTES as usize, "a header")?;
        let (count, block) = (u64::from(u32_at(raw, 0)) + 1, u32_at(raw, 4));
        // After the header is read: it may end in a block that was not walked before.
        if self.listed_bytes > self.table.walked_bytes() {
            return Err(self.table.damaged_at(at, Fault::Overlap));
        }
        if count > GROUP_ENTRIES.into() {
            let rule = "one header is followed by at most 256";
            return Err(self.table.damaged_at(at, Fault::Value { field: "the number of entries", got: count, rule }));
        }
        cursor.group_left = count as u32;
        cursor.inode_block = inodes.block_at(block.into())?;
        Ok(())
    }

    /// Takes `length` bytes of what the directory's inode says the listing has.
    fn spend(&mut self, cursor: &mut Cursor, length: u32, of: &'static str) -> Result<(), SquashError> {
        let Some(left) = cursor.bytes_left.checked_sub(length) else {
            return Err(self.table.damaged_at(cursor.position, Fault::Cut { what: "the listing", of }));
        };
        cursor.bytes_left = left;
        self.listed_bytes += u64::from(length);
        Ok(())
    }

    /// An error at the place that `cursor` has come to.
    pub(crate) fn damaged(&self, cursor: &Cursor, fault: Fault) -> SquashError {
        self.table.damaged_at(cursor.position, fault)
    }
}
