//! The id table: the numbers of owners and groups, to which inodes refer by their place.
//!
//! `id_count` little-endian `u32` in metadata blocks of 2,048, and at the table's start one `u64` a block that says where it stands.

use crate::bytes::{u32_at, u64_at};
use crate::compression::BLOCK_BYTES;
use crate::metadata::Table;
use crate::superblock::Superblock;
use crate::{Fault, Source, SquashError};

const NAME: &str = "id table";
const ID_BYTES: usize = 4;
const POINTER_BYTES: usize = 8;

/// The ids in their order, and where the first block of the table starts: everything the directory table holds lies before it.
#[derive(Debug)]
pub(crate) struct Ids {
    pub(crate) ids: Vec<u32>,
    pub(crate) first_block: u64,
}

impl Ids {
    /// The count is at most 65,535, and its pointers are known to lie in the file before anything is allocated for them.
    pub(crate) fn read(image: &Source, superblock: &Superblock) -> Result<Self, SquashError> {
        let size = usize::from(superblock.id_count) * ID_BYTES;
        let pointers_size = (size.div_ceil(BLOCK_BYTES) * POINTER_BYTES) as u64;
        let used = image.part("bytes used", 0, superblock.bytes_used)?;
        let pointers = used.part(NAME, superblock.id_table, pointers_size)?.bytes(NAME)?;
        let first_block = u64_at(&pointers, 0);
        let damaged = |offset, fault| SquashError::Damaged {
            path: image.path().into(),
            part: NAME.into(),
            offset: image.in_file(offset),
            fault,
        };
        if first_block < superblock.directory_table || first_block >= superblock.id_table {
            let rule = "it lies between the directory table and the list of id blocks";
            let fault = Fault::Value { field: "the start of the first id block", got: first_block, rule };
            return Err(damaged(superblock.id_table, fault));
        }
        let range = (first_block, superblock.id_table);
        let mut table = Table::new(NAME, *image, range, superblock.compressor, 1)?;
        let mut ids = Vec::with_capacity(usize::from(superblock.id_count));
        for (index, pointer) in pointers.chunks_exact(POINTER_BYTES).enumerate() {
            let pointer = u64_at(pointer, 0);
            let Some(start) = pointer.checked_sub(first_block) else {
                return Err(damaged(pointer, Fault::NoBlock));
            };
            let mut position = table.position(start, 0)?;
            let block = table.take(&mut position, BLOCK_BYTES.min(size - index * BLOCK_BYTES), "the ids")?;
            ids.extend(block.chunks_exact(ID_BYTES).map(|id| u32_at(id, 0)));
        }
        Ok(Self { ids, first_block })
    }
}
