//! Hand-made images, so that each rule of a format can be broken alone. Every block is stored unpacked.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::Path;

use platoon_squash::{owners, visit_owners, Limits, Owner, Source, SquashError};

pub const BLOCK: usize = 8192;
pub const SUPERBLOCK: usize = 96;
pub const ZSTD: u16 = 6;

/// A byte of the unpacked inode table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InodeAt(pub usize);

impl InodeAt {
    /// Where the packed block starts in the table, and the byte of what it unpacks to.
    pub fn reference(self) -> (usize, usize) {
        (self.0 / BLOCK * (BLOCK + 2), self.0 % BLOCK)
    }
}

/// A squashfs that is being written. Fields may be set to what no writer would write.
#[derive(Debug, Clone)]
pub struct Image {
    pub ids: Vec<u32>,
    pub id_count: Option<u16>,
    pub inodes: Vec<u8>,
    pub listings: Vec<u8>,
    pub inode_count: u32,
    pub compressor: u16,
    pub version: (u16, u16),
    pub options: Option<Vec<u8>>,
}

impl Default for Image {
    fn default() -> Self {
        Self {
            ids: vec![0, 1000, 33],
            id_count: None,
            inodes: Vec::new(),
            listings: Vec::new(),
            inode_count: 0,
            compressor: ZSTD,
            version: (4, 0),
            options: None,
        }
    }
}

impl Image {
    pub fn next(&self) -> InodeAt {
        InodeAt(self.inodes.len())
    }

    /// An inode that is no directory, of any type, with a body of the right length.
    pub fn inode(&mut self, kind: u16, uid_index: u16, gid_index: u16) -> InodeAt {
        let body = match kind {
            2 => 16,
            3 | 10 => 8 + 4 * usize::from(kind == 10),
            4 | 5 => 8,
            11 | 12 => 12,
            6 | 7 => 4,
            13 | 14 => 8,
            9 => 40,
            _ => 0,
        };
        let at = self.header(kind, uid_index, gid_index);
        self.inodes.extend(vec![0; body]);
        at
    }

    /// A directory of these entries: name, type, inode.
    pub fn directory(&mut self, uid_index: u16, entries: &[(&[u8], u16, InodeAt)]) -> InodeAt {
        let start = self.listings.len();
        self.list(entries);
        self.directory_at(uid_index, start, self.listings.len() - start)
    }

    /// A directory whose listing is said to be `size` bytes at a byte of the directory table.
    pub fn directory_at(&mut self, uid_index: u16, start: usize, size: usize) -> InodeAt {
        let at = self.header(8, uid_index, 0);
        self.inodes.extend(2u32.to_le_bytes());
        self.inodes.extend((size as u32 + 3).to_le_bytes());
        self.inodes.extend(((start / BLOCK * (BLOCK + 2)) as u32).to_le_bytes());
        self.inodes.extend(1u32.to_le_bytes());
        self.inodes.extend(0u16.to_le_bytes());
        self.inodes.extend(((start % BLOCK) as u16).to_le_bytes());
        self.inodes.extend(u32::MAX.to_le_bytes());
        at
    }

    /// The basic form, whose listing is shorter than 64 KiB.
    pub fn basic_directory(&mut self, uid_index: u16, entries: &[(&[u8], u16, InodeAt)]) -> InodeAt {
        let start = self.listings.len();
        self.list(entries);
        let size = self.listings.len() - start;
        let at = self.header(1, uid_index, 0);
        self.inodes.extend(((start / BLOCK * (BLOCK + 2)) as u32).to_le_bytes());
        self.inodes.extend(2u32.to_le_bytes());
        self.inodes.extend((size as u16 + 3).to_le_bytes());
        self.inodes.extend(((start % BLOCK) as u16).to_le_bytes());
        self.inodes.extend(1u32.to_le_bytes());
        at
    }

    fn header(&mut self, kind: u16, uid_index: u16, gid_index: u16) -> InodeAt {
        let at = self.next();
        self.inode_count += 1;
        for field in [kind, 0o755, uid_index, gid_index] {
            self.inodes.extend(field.to_le_bytes());
        }
        self.inodes.extend(0u32.to_le_bytes());
        self.inodes.extend(self.inode_count.to_le_bytes());
        at
    }

    /// Headers, and up to 256 entries after each, all with inodes of one block.
    fn list(&mut self, entries: &[(&[u8], u16, InodeAt)]) {
        let groups = entries.chunk_by(|left, right| left.2.reference().0 == right.2.reference().0);
        for group in groups.flat_map(|group| group.chunks(256)) {
            self.listings.extend((group.len() as u32 - 1).to_le_bytes());
            self.listings.extend((group[0].2.reference().0 as u32).to_le_bytes());
            self.listings.extend(1u32.to_le_bytes());
            for (name, kind, inode) in group {
                for field in [inode.reference().1 as u16, 0, *kind, (name.len() as u16).wrapping_sub(1)] {
                    self.listings.extend(field.to_le_bytes());
                }
                self.listings.extend(*name);
            }
        }
    }

    pub fn finish(&self, root: InodeAt) -> Vec<u8> {
        let options = self.options.as_ref().map(|options| packed(options)).unwrap_or_default();
        let inode_table = SUPERBLOCK + options.len();
        let directory_table = inode_table + packed(&self.inodes).len();
        let first_id_block = directory_table + packed(&self.listings).len();
        let ids: Vec<u8> = self.ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let id_table = first_id_block + packed(&ids).len();
        let pointers = (0..ids.len().div_ceil(BLOCK)).map(|index| first_id_block + index * (BLOCK + 2));
        let pointers: Vec<u8> = pointers.flat_map(|pointer| (pointer as u64).to_le_bytes()).collect();
        let mut bytes = b"hsqs".to_vec();
        for field in [self.inode_count, 0, 131_072, 0] {
            bytes.extend(field.to_le_bytes());
        }
        let flags = 0x400 * u16::from(self.options.is_some());
        let id_count = self.id_count.unwrap_or(self.ids.len() as u16);
        for field in [self.compressor, 17, flags, id_count, self.version.0, self.version.1] {
            bytes.extend(field.to_le_bytes());
        }
        let (block, byte) = root.reference();
        bytes.extend(((block << 16 | byte) as u64).to_le_bytes());
        bytes.extend(((id_table + pointers.len()) as u64).to_le_bytes());
        for start in [id_table as u64, u64::MAX, inode_table as u64, directory_table as u64, u64::MAX, u64::MAX] {
            bytes.extend(start.to_le_bytes());
        }
        bytes.extend(options);
        for table in [&self.inodes, &self.listings, &ids] {
            bytes.extend(packed(table));
        }
        bytes.extend(pointers);
        bytes
    }
}

/// Metadata blocks that hold `bytes`, none of them packed.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let blocks = bytes.chunks(BLOCK);
    blocks.flat_map(|block| [&(block.len() as u16 | 0x8000).to_le_bytes(), block].concat()).collect()
}

pub fn read(bytes: &[u8]) -> Result<Vec<Owner>, SquashError> {
    with_source(bytes, owners)
}

/// The owners as text: `uid gid path`.
pub fn lines(bytes: &[u8]) -> Vec<String> {
    let owners = read(bytes).expect("reads");
    owners.iter().map(|owner| format!("{} {} {}", owner.uid, owner.gid, owner.path.escape_ascii())).collect()
}

/// How many entries are reported within `limits`.
pub fn count(bytes: &[u8], limits: &Limits) -> Result<u64, SquashError> {
    let mut count = 0;
    with_source(bytes, |source| visit_owners(source, limits, |_, _, _| count += 1))?;
    Ok(count)
}

pub fn with_source<T>(bytes: &[u8], work: impl FnOnce(&Source) -> T) -> T {
    work(&Source::new(&bytes, Path::new("made.sqfs"), bytes.len() as u64))
}

pub mod sif;
