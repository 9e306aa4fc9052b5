//! Reading a directory tree below its descriptor.
//!
//! No path is ever handed to the kernel whole: each component is looked at without following links and opened relative to its parent.
//! A link is followed here, in user space, so that a target outside the root is seen before it is opened.

use std::cmp::Ordering;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::file::OPEN_FILE;
use crate::DigestError;

/// As many links as the kernel follows in one path; beyond it a path names nothing.
const LINK_LIMIT: usize = 40;
/// Bounds recursion and open descriptors.
pub(crate) const DEPTH_LIMIT: usize = 256;

/// What the kernel may fill with entries at once.
const LISTING_BYTES: usize = 32 * 1024;

pub(crate) const OPEN_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);

/// An open directory and the name it goes by in errors.
pub(crate) struct Root {
    descriptor: Arc<OwnedFd>,
    path: PathBuf,
}

/// Where a path leads, links followed within a root.
pub(crate) enum Followed {
    File(File),
    Directory(Arc<OwnedFd>),
    /// Out of the root, by the target of this link.
    Outside(OsString),
    /// To nothing, or to what is neither file nor directory.
    Nowhere,
}

/// The entries of a directory in order of the paths of what is below them, so that a directory `a` comes behind a file `a-b`. The names
/// lie in one buffer, each ended by NUL.
#[derive(Default)]
pub(crate) struct Entries {
    names: Vec<u8>,
    items: Vec<Item>,
}

struct Item {
    /// Where the name lies, its NUL included.
    name: Range<usize>,
    kind: FileType,
}

impl Root {
    pub(crate) fn open(path: &Path) -> Result<Self, DigestError> {
        let descriptor =
            rustix::fs::open(path, OPEN_DIRECTORY, Mode::empty()).map_err(|error| DigestError::io(path, error))?;
        Ok(Self { descriptor: Arc::new(descriptor), path: path.into() })
    }

    /// Opens a directory that must not be a link.
    pub(crate) fn open_itself(path: &Path) -> Result<Self, DigestError> {
        let flags = OPEN_DIRECTORY.union(OFlags::NOFOLLOW);
        let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| DigestError::io(path, error))?;
        Ok(Self::of(opened, path))
    }

    /// A directory that is open already.
    pub(crate) fn of(descriptor: impl Into<Arc<OwnedFd>>, path: &Path) -> Self {
        Self { descriptor: descriptor.into(), path: path.into() }
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The descriptor, kept open by whoever holds the result.
    pub(crate) fn shared(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.descriptor)
    }

    /// The name of `relative` in errors.
    pub(crate) fn name(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.path.join(relative)
    }

    /// Opens the regular file that a path names which should name one; what is none is an error, as is a path out of the root.
    pub(crate) fn open_named(&self, relative: &str) -> Result<File, DigestError> {
        if !is_within(relative) {
            return Err(DigestError::NotWithin { path: self.path.clone(), given: relative.to_owned() });
        }
        self.open_file(relative.as_ref())?.ok_or_else(|| DigestError::NotAFile { path: self.name(relative) })
    }

    /// Opens the regular file that `relative` names, links followed; `None` where it names nothing, or something else.
    ///
    /// A link whose target is absolute or climbs out of the root is an error, whatever it would have led to.
    pub(crate) fn open_file(&self, relative: &Path) -> Result<Option<File>, DigestError> {
        match self.follow(relative)? {
            Followed::File(file) => Ok(Some(file)),
            Followed::Outside(target) => {
                let target = target.to_string_lossy().into_owned();
                Err(DigestError::EscapingLink { path: self.name(relative), target })
            }
            Followed::Directory(_) | Followed::Nowhere => Ok(None),
        }
    }

    /// Opens what `relative` leads to.
    pub(crate) fn follow(&self, relative: &Path) -> Result<Followed, DigestError> {
        let mut parents: Vec<OwnedFd> = Vec::new();
        let mut pending = reversed_components(relative.as_os_str());
        let mut last_target = OsString::new();
        let mut links = 0;
        let failed = |error: Errno| DigestError::io(self.name(relative), error);
        while let Some(component) = pending.pop() {
            if component == "." {
                continue;
            }
            if component == ".." {
                if parents.pop().is_none() {
                    return Ok(Followed::Outside(last_target));
                }
                continue;
            }
            let parent = parents.last().map_or(self.as_fd(), AsFd::as_fd);
            match kind_at(parent, component.as_os_str()).map_err(failed)? {
                Some(FileType::Symlink) => {
                    links += 1;
                    let target = rustix::fs::readlinkat(parent, component.as_os_str(), Vec::new()).map_err(failed)?;
                    last_target = OsString::from_vec(target.into_bytes());
                    if last_target.as_bytes().starts_with(b"/") {
                        return Ok(Followed::Outside(last_target));
                    }
                    if links > LINK_LIMIT {
                        return Ok(Followed::Nowhere);
                    }
                    pending.extend(reversed_components(&last_target));
                }
                Some(FileType::Directory) => {
                    parents.push(open_directory(parent, component.as_os_str()).map_err(failed)?)
                }
                Some(FileType::RegularFile) if pending.is_empty() => {
                    return open_regular(parent, component.as_os_str()).map(Followed::File).map_err(failed)
                }
                _ => return Ok(Followed::Nowhere),
            }
        }
        Ok(Followed::Directory(parents.pop().map_or_else(|| self.shared(), Arc::new)))
    }
}

/// True for a relative path that says something and does not climb out of where it starts.
fn is_within(relative: &str) -> bool {
    let mut depth = 0i64;
    let mut climbs = |component| {
        depth += match component {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        depth < 0
    };
    !relative.is_empty()
        && !relative.starts_with('/')
        && !relative.contains('\0')
        && !relative.split('/').any(&mut climbs)
}

/// Components last first. A trailing slash asks for a directory, which a final `.` keeps.
fn reversed_components(path: &OsStr) -> Vec<OsString> {
    let bytes = path.as_bytes();
    let parts = bytes.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
    let mut components: Vec<OsString> = parts.map(|part| OsStr::from_bytes(part).to_owned()).collect();
    if bytes.ends_with(b"/") {
        components.push(".".into());
    }
    components.reverse();
    components
}

/// What `name` is in `parent`, links not followed; `None` where there is nothing.
pub(crate) fn kind_at(parent: BorrowedFd<'_>, name: impl Arg) -> Result<Option<FileType>, Errno> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(status) => Ok(Some(FileType::from_raw_mode(status.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn open_directory(parent: BorrowedFd<'_>, name: impl Arg) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, OPEN_DIRECTORY.union(OFlags::NOFOLLOW), Mode::empty())
}

/// Opens what is expected to be a regular file; a link is an error.
pub(crate) fn open_regular(parent: BorrowedFd<'_>, name: impl Arg) -> Result<File, Errno> {
    rustix::fs::openat(parent, name, OPEN_FILE.union(OFlags::NOFOLLOW), Mode::empty()).map(File::from)
}

impl Item {
    /// The order of paths: a directory's name goes on with a slash.
    fn compare(&self, other: &Self, names: &[u8]) -> Ordering {
        let [left, right] = [self, other].map(|item| &names[item.name.start..item.name.end - 1]);
        let common = left.len().min(right.len());
        let next = |item: &Self, name: &[u8]| match name.get(common) {
            Some(byte) => *byte,
            None if item.kind == FileType::Directory => b'/',
            None => 0,
        };
        left[..common].cmp(&right[..common]).then_with(|| next(self, left).cmp(&next(other, right)))
    }
}

impl Entries {
    /// Lists an open directory in the place of what was listed before.
    pub(crate) fn read(&mut self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        self.names.clear();
        self.items.clear();
        let mut buffer = [MaybeUninit::uninit(); LISTING_BYTES];
        let mut listing = RawDir::new(directory, &mut buffer);
        while let Some(entry) = listing.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => kind_at(directory, name)?.unwrap_or(FileType::Unknown),
                known => known,
            };
            self.push(name, kind);
        }
        let names = &self.names;
        self.items.sort_unstable_by(|left, right| left.compare(right, names));
        Ok(())
    }

    /// Adds an entry; whoever adds keeps the order.
    pub(crate) fn push(&mut self, name: &CStr, kind: FileType) {
        let start = self.names.len();
        self.names.extend_from_slice(name.to_bytes_with_nul());
        self.items.push(Item { name: start..self.names.len(), kind });
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Name and kind, links not followed.
    pub(crate) fn get(&self, index: usize) -> (&CStr, FileType) {
        let item = &self.items[index];
        (CStr::from_bytes_with_nul(&self.names[item.name.clone()]).unwrap_or_default(), item.kind)
    }
}
