//! The superblock of squashfs 4.0, little-endian.
//!
//! | byte | width | field |
//! |---|---|---|
//! | 0 | 4 | magic `hsqs` |
//! | 4 | 4 | inode count |
//! | 8 | 4 | time of making |
//! | 12 | 4 | data block size |
//! | 16 | 4 | fragment count |
//! | 20 | 2 | compressor |
//! | 22 | 2 | logarithm of the data block size |
//! | 24 | 2 | flags |
//! | 26 | 2 | id count |
//! | 28 | 2 | major version |
//! | 30 | 2 | minor version |
//! | 32 | 8 | reference of the root directory's inode |
//! | 40 | 8 | bytes used |
//! | 48, 56, 64, 72, 80, 88 | 8 | starts of the id, xattr, inode, directory, fragment and export tables |
//!
//! A block of compressor options may follow. No decoder here needs them, so they are not judged: an image whose options a tool of
//! squashfs-tools-ng refuses is read (its issue 51). What describes data blocks is not judged either.

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::compression::Compressor;
use crate::{Fault, Source, SquashError};

pub(crate) const MAGIC: &[u8; 4] = b"hsqs";
const BIG_ENDIAN_MAGIC: &[u8; 4] = b"sqsh";
pub(crate) const SUPERBLOCK_BYTES: usize = 96;
const PART: &str = "superblock";

/// A position in a table of metadata blocks, as the format writes it: where the packed block starts, counted from the table's
/// start, and a byte of what it unpacks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Reference {
    pub(crate) block: u64,
    pub(crate) byte: u16,
}

/// What the reading of owners needs.
#[derive(Debug)]
pub(crate) struct Superblock {
    pub(crate) compressor: Compressor,
    pub(crate) id_count: u16,
    pub(crate) root: Reference,
    pub(crate) id_table: u64,
    pub(crate) inode_table: u64,
    pub(crate) directory_table: u64,
    pub(crate) bytes_used: u64,
}

impl Superblock {
    /// Reads and checks what stands at the start of `image`: after it, every table starts inside the bytes used, in the order in
    /// which the kernel demands them, and those bytes are all there.
    pub(crate) fn read(image: &Source) -> Result<Self, SquashError> {
        let mut raw = [0; SUPERBLOCK_BYTES];
        image.read(PART, 0, &mut raw)?;
        check_kind(image, &raw)?;
        let root = u64_at(&raw, 32);
        let superblock = Self {
            compressor: Compressor::from_number(u16_at(&raw, 20)).map_err(|what| unsupported(image, what))?,
            id_count: u16_at(&raw, 26),
            root: Reference { block: root >> 16, byte: root as u16 },
            id_table: u64_at(&raw, 48),
            inode_table: u64_at(&raw, 64),
            directory_table: u64_at(&raw, 72),
            bytes_used: u64_at(&raw, 40),
        };
        image.part("bytes used", 0, superblock.bytes_used)?;
        superblock.check(u32_at(&raw, 4)).map_err(|(byte, fault)| SquashError::Damaged {
            path: image.path().into(),
            part: PART.into(),
            offset: image.in_file(byte),
            fault,
        })?;
        Ok(superblock)
    }

    /// The first rule that is broken, and the byte of the field that breaks it.
    fn check(&self, inode_count: u32) -> Result<(), (u64, Fault)> {
        let fault = |byte, field, got, rule| Err((byte, Fault::Value { field, got, rule }));
        if inode_count == 0 {
            return fault(4, "the inode count", 0, "a root directory is one");
        }
        if self.id_count == 0 {
            return fault(26, "the id count", 0, "a root directory has an owner");
        }
        if self.inode_table < SUPERBLOCK_BYTES as u64 || self.inode_table >= self.directory_table {
            return fault(64, "the start of the inode table", self.inode_table, "it lies before the directory table");
        }
        if self.directory_table > self.id_table {
            return fault(72, "the start of the directory table", self.directory_table, "it lies before the id table");
        }
        if self.id_table > self.bytes_used {
            return fault(48, "the start of the id table", self.id_table, "it lies inside the bytes used");
        }
        if self.root.block >= self.directory_table - self.inode_table {
            return fault(32, "the root's inode block", self.root.block, "it lies inside the inode table");
        }
        Ok(())
    }
}

/// Magic and version, which stand at the same bytes in all versions.
fn check_kind(image: &Source, raw: &[u8; SUPERBLOCK_BYTES]) -> Result<(), SquashError> {
    if raw.starts_with(BIG_ENDIAN_MAGIC) {
        return Err(unsupported(image, "big-endian squashfs".into()));
    }
    if !raw.starts_with(MAGIC) {
        return Err(SquashError::Magic {
            path: image.path().into(),
            expected: "a squashfs",
            offset: image.in_file(0),
            got: raw[..4].into(),
        });
    }
    match (u16_at(raw, 28), u16_at(raw, 30)) {
        (4, 0) => Ok(()),
        (major, minor) => Err(unsupported(image, format!("squashfs {major}.{minor} (only 4.0 is)"))),
    }
}

fn unsupported(image: &Source, what: String) -> SquashError {
    SquashError::Unsupported { path: image.path().into(), what }
}
