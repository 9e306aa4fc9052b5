//! The walk over an image's directories, and the owners it meets.

use std::collections::HashSet;

use crate::directory::{Cursor, Directories};
use crate::ids::Ids;
use crate::inode::{self, Inode, Listing, DIRECTORY};
use crate::metadata::{Position, Table, CACHED_BLOCKS};
use crate::superblock::Superblock;
use crate::{Fault, Source, SquashError};

/// An entry that does not belong to 0:0. `path` is absolute and has no slash at its end; the root is `/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    pub path: Vec<u8>,
    pub uid: u32,
    pub gid: u32,
}

const ENTRIES_A_CHECK: u64 = 512;

/// What an image may ask for at most; one that asks for more is refused.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Directories inside each other.
    pub depth: usize,
    /// Bytes of one path.
    pub path_bytes: usize,
    /// Entries of all directories together.
    pub entries: u64,
    /// Bytes of all reported paths together.
    pub reported_bytes: u64,
    /// Unpacked blocks of 8 KiB that are held of a table; those of a larger one are unpacked again when they are asked for again.
    pub cached_blocks: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 1024,
            path_bytes: 65_535,
            entries: 1 << 24,
            reported_bytes: 256 << 20,
            cached_blocks: CACHED_BLOCKS,
        }
    }
}

/// The owners of a squashfs that begins at the start of `image`, in the order of the walk: a directory before its entries, those by
/// name.
///
/// # Errors
/// Any rule of the format that is broken where the walk comes by, and what an image holds beyond the default [`Limits`].
pub fn owners(image: &Source) -> Result<Vec<Owner>, SquashError> {
    let mut owners = Vec::new();
    visit_owners(image, &Limits::default(), |path, uid, gid| owners.push(Owner { path: path.into(), uid, gid }))?;
    Ok(owners)
}

/// Calls `visit` with path, uid and gid of each entry that is not 0:0. A hard link is an entry for each of its names.
///
/// Holds at most 64 MiB of unpacked tables (what there is of them, for an image of less than a million entries), the ids, and a few
/// bytes a directory. What was visited before an error is no record of anything.
pub fn visit_owners(
    image: &Source,
    limits: &Limits,
    mut visit: impl FnMut(&[u8], u32, u32),
) -> Result<(), SquashError> {
    let superblock = Superblock::read(image)?;
    let ids = Ids::read(image, &superblock)?;
    let table = |name, range| Table::new(name, *image, range, superblock.compressor, limits.cached_blocks);
    let inodes = table("inode table", (superblock.inode_table, superblock.directory_table))?;
    let directories = table("directory table", (superblock.directory_table, ids.first_block))?;
    let mut walk = Walk {
        image: *image,
        limits: *limits,
        ids: ids.ids,
        inodes,
        directories: Directories::new(directories),
        listed: HashSet::new(),
        path: Vec::new(),
        entries: 0,
        reported_bytes: 0,
    };
    let root = walk.inodes.position(superblock.root.block, superblock.root.byte)?;
    walk.run(root, &mut visit)
}

struct Walk<'a> {
    image: Source<'a>,
    limits: Limits,
    ids: Vec<u32>,
    inodes: Table<'a>,
    directories: Directories<'a>,
    /// The directories whose entries were, or are being, listed.
    listed: HashSet<(usize, usize)>,
    path: Vec<u8>,
    entries: u64,
    reported_bytes: u64,
}

/// An open directory: how long its path is, without a slash at the end, and where its listing was left.
struct Frame {
    path_length: usize,
    cursor: Cursor,
}

impl Walk<'_> {
    fn run(&mut self, root: Position, visit: &mut impl FnMut(&[u8], u32, u32)) -> Result<(), SquashError> {
        let (inode, listing) = inode::read(&mut self.inodes, root)?;
        let Some(listing) = listing else {
            let fault = Fault::TypeDiffers { entry: DIRECTORY, inode: inode.kind };
            return Err(self.inodes.damaged_at(root, fault));
        };
        self.report(root, inode, visit)?;
        let mut frames = vec![self.enter(root, listing)?];
        while let Some(frame) = frames.last_mut() {
            match self.step(frame, visit)? {
                Step::Entry => {}
                Step::Directory(child) => frames.push(child),
                Step::End => _ = frames.pop(),
            }
            if frames.len() > self.limits.depth {
                return Err(self.limit("directories inside each other", self.limits.depth as u64));
            }
        }
        Ok(())
    }

    /// Reads and reports one entry. `path` ends, before it, in the name of the entry that came last.
    fn step(&mut self, frame: &mut Frame, visit: &mut impl FnMut(&[u8], u32, u32)) -> Result<Step, SquashError> {
        let Some(entry) = self.directories.next(&mut frame.cursor, &mut self.inodes)? else {
            // What is left is this directory's own name, which the next one is compared with.
            self.path.truncate(frame.path_length);
            return Ok(Step::End);
        };
        let (kind, position) = (entry.kind, entry.inode);
        let last = self.path.get(frame.path_length + 1..).unwrap_or_default();
        let broken = name_rule(entry.name, last);
        self.path.truncate(frame.path_length);
        self.path.push(b'/');
        self.path.extend_from_slice(entry.name);
        if let Some(rule) = broken {
            let name = self.path[frame.path_length + 1..].escape_ascii().to_string();
            return Err(self.directories.damaged(&frame.cursor, Fault::Name { name, rule }));
        }
        self.entries += 1;
        if self.entries % ENTRIES_A_CHECK == 0 {
            let failed = |source| SquashError::Io { path: self.image.path().into(), source };
            platoon_interrupt::check().map_err(failed)?;
        }
        if self.entries > self.limits.entries {
            return Err(self.limit("entries", self.limits.entries));
        }
        if self.path.len() > self.limits.path_bytes {
            return Err(self.limit("bytes in one path", self.limits.path_bytes as u64));
        }
        let (inode, listing) = inode::read(&mut self.inodes, position)?;
        if inode.kind != kind {
            return Err(self.entry_error(position, Fault::TypeDiffers { entry: kind, inode: inode.kind }));
        }
        self.report(position, inode, visit)?;
        Ok(match listing {
            Some(listing) => Step::Directory(self.enter(position, listing)?),
            None => Step::Entry,
        })
    }

    fn enter(&mut self, position: Position, listing: Listing) -> Result<Frame, SquashError> {
        if !self.listed.insert((position.block, position.byte)) {
            return Err(self.entry_error(position, Fault::ListedBefore));
        }
        Ok(Frame { path_length: self.path.len(), cursor: self.directories.open(listing)? })
    }

    fn report(
        &mut self,
        position: Position,
        inode: Inode,
        visit: &mut impl FnMut(&[u8], u32, u32),
    ) -> Result<(), SquashError> {
        let [uid, gid] = [inode.uid_index, inode.gid_index].map(|index| self.ids.get(usize::from(index)).copied());
        let (Some(uid), Some(gid)) = (uid, gid) else {
            let index = if uid.is_none() { inode.uid_index } else { inode.gid_index };
            return Err(self.entry_error(position, Fault::UnknownId { index, count: self.ids.len() }));
        };
        if uid == 0 && gid == 0 {
            return Ok(());
        }
        self.reported_bytes += self.path.len() as u64;
        if self.reported_bytes > self.limits.reported_bytes {
            return Err(self.limit("bytes in the paths to report", self.limits.reported_bytes));
        }
        visit(if self.path.is_empty() { b"/" } else { &self.path }, uid, gid);
        Ok(())
    }

    fn limit(&self, what: &'static str, limit: u64) -> SquashError {
        SquashError::Limit { path: self.image.path().into(), what, limit }
    }

    /// An error of the entry at hand, by its path and the place of its inode.
    fn entry_error(&self, position: Position, fault: Fault) -> SquashError {
        let path: &[u8] = if self.path.is_empty() { b"/" } else { &self.path };
        SquashError::Damaged {
            path: self.image.path().into(),
            part: format!("entry {}, its inode (unpacked byte {})", path.escape_ascii(), position.byte),
            offset: self.inodes.offset_of(position),
            fault,
        }
    }
}

enum Step {
    Entry,
    Directory(Frame),
    End,
}

/// The rule of names that `name` breaks, which comes after `last` (empty for the first entry).
fn name_rule(name: &[u8], last: &[u8]) -> Option<&'static str> {
    if name == b"." || name == b".." {
        return Some("is not one of an entry");
    }
    if name.iter().any(|&byte| byte == b'/' || byte == 0) {
        return Some("holds a slash or a NUL");
    }
    if name <= last {
        return Some(if name == last {
            "stands twice in one directory"
        } else {
            "does not come after the one before it"
        });
    }
    None
}
