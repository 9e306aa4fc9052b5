//! The two large tables as a whole: what reading owners costs at least, and a check that every block of them unpacks.

use crate::ids::Ids;
use crate::metadata::Table;
use crate::superblock::Superblock;
use crate::{Source, SquashError};

/// Bytes of an image's tables, unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSizes {
    pub inode_bytes: u64,
    pub directory_bytes: u64,
}

/// Unpacks the inode table and the directory table from end to end, through one buffer.
pub fn table_sizes(image: &Source) -> Result<TableSizes, SquashError> {
    let superblock = Superblock::read(image)?;
    let ids = Ids::read(image, &superblock)?;
    let directory_end = superblock.first_after_directories(image, ids.first_block)?;
    let unpack = |name, range| Table::new(name, *image, range, superblock.compressor, 1)?.unpack_all();
    Ok(TableSizes {
        inode_bytes: unpack("inode table", (superblock.inode_table, superblock.directory_table))?,
        directory_bytes: unpack("directory table", (superblock.directory_table, directory_end))?,
    })
}
