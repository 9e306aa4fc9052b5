//! Inodes, as far as owners and the way to a directory's entries need them.
//!
//! All fourteen types begin with the same sixteen bytes; 1 to 7 are the basic forms of directory, file, link, block and character
//! device, FIFO and socket, 8 to 14 the extended ones.
//!
//! | byte | width | field |
//! |---|---|---|
//! | 0 | 2 | type |
//! | 2 | 2 | mode |
//! | 4, 6 | 2 | places of owner and group in the id table |
//! | 8 | 4 | time of change |
//! | 12 | 4 | inode number |
//!
//! | directory | extended | width | field |
//! |---|---|---|---|
//! | 16 | 24 | 4 | block of the directory table where the entries start |
//! | 20 | 16 | 4 | links |
//! | 24 | 20 | 2, extended 4 | size of the entries, plus 3 |
//! | 26 | 34 | 2 | byte of the unpacked block where the entries start |
//! | 28 | 28 | 4 | inode number of the parent |
//!
//! In the extended form, 32 is the number of index records that follow and 36 the number of the extended attributes.

use crate::bytes::{u16_at, u32_at};
use crate::metadata::{Position, Table};
use crate::superblock::Reference;
use crate::{Fault, SquashError};

/// A directory's size counts its `.` and `..`, which are not stored, as 3.
const ABSENT_ENTRIES: u32 = 3;
const HEADER_BYTES: usize = 16;
const DIRECTORY_BYTES: usize = 32;
const EXTENDED_DIRECTORY_BYTES: usize = 40;
pub(crate) const DIRECTORY: u16 = 1;
const EXTENDED_DIRECTORY: u16 = 8;
const TYPES: u16 = 7;

/// What all inodes have. `kind` is the basic type, 1 to 7.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inode {
    pub(crate) kind: u16,
    pub(crate) uid_index: u16,
    pub(crate) gid_index: u16,
}

/// Where the entries of a directory stand, and how many bytes they take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listing {
    pub(crate) start: Reference,
    pub(crate) size: u32,
}

/// The inode at `position`, and the listing where it is a directory.
pub(crate) fn read(inodes: &mut Table, position: Position) -> Result<(Inode, Option<Listing>), SquashError> {
    let mut at = position;
    let raw = inodes.take(&mut at, HEADER_BYTES, "an inode")?;
    let number = u16_at(raw, 0);
    let inode = Inode {
        kind: if number > TYPES { number - TYPES } else { number },
        uid_index: u16_at(raw, 4),
        gid_index: u16_at(raw, 6),
    };
    if !(1..=TYPES).contains(&inode.kind) {
        let fault = Fault::Value { field: "the inode's type", got: number.into(), rule: "1 to 14 are known" };
        return Err(inodes.damaged_at(position, fault));
    }
    if inode.kind != DIRECTORY {
        return Ok((inode, None));
    }
    let mut at = position;
    let (start, size, byte) = if number == EXTENDED_DIRECTORY {
        let raw = inodes.take(&mut at, EXTENDED_DIRECTORY_BYTES, "a directory's inode")?;
        (u32_at(raw, 24), u32_at(raw, 20), u16_at(raw, 34))
    } else {
        let raw = inodes.take(&mut at, DIRECTORY_BYTES, "a directory's inode")?;
        (u32_at(raw, 16), u16_at(raw, 24).into(), u16_at(raw, 26))
    };
    let start = Reference { block: start.into(), byte };
    Ok((inode, Some(Listing { start, size: size.saturating_sub(ABSENT_ENTRIES) })))
}
