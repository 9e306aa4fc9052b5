//! Reading a directory tree below its descriptor.
//!
//! No path is ever handed to the kernel whole: each component is looked at without following links and opened relative to its parent.
//! A link is followed here, in user space, so that a target outside the root is seen before it is opened.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::file::OPEN_FILE;
use crate::DigestError;

/// As many links as the kernel follows in one path; beyond it a path names nothing.
const LINK_LIMIT: usize = 40;
/// Bounds recursion and open descriptors.
pub(crate) const DEPTH_LIMIT: usize = 256;

const OPEN_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);

/// An open directory and the name it goes by in errors.
pub(crate) struct Root {
    descriptor: OwnedFd,
    path: PathBuf,
}

/// One entry of a directory, before links are followed.
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: FileType,
}

impl Root {
    pub(crate) fn open(path: &Path) -> Result<Self, DigestError> {
        let descriptor =
            rustix::fs::open(path, OPEN_DIRECTORY, Mode::empty()).map_err(|error| DigestError::io(path, error))?;
        Ok(Self { descriptor, path: path.into() })
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The name of `relative` in errors.
    pub(crate) fn name(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.path.join(relative)
    }

    /// Opens the regular file that `relative` names, links followed; `None` where it names nothing, or something else.
    ///
    /// A link whose target is absolute or climbs out of the root is an error, whatever it would have led to.
    pub(crate) fn open_file(&self, relative: &Path) -> Result<Option<File>, DigestError> {
        let mut parents: Vec<OwnedFd> = Vec::new();
        let mut pending = reversed_components(relative.as_os_str());
        let mut last_target = OsString::new();
        let mut links = 0;
        let escapes = |target: &OsStr| DigestError::EscapingLink {
            path: self.name(relative),
            target: target.to_string_lossy().into_owned(),
        };
        let failed = |error: Errno| DigestError::io(self.name(relative), error);
        while let Some(component) = pending.pop() {
            if component == "." {
                continue;
            }
            if component == ".." {
                if parents.pop().is_none() {
                    return Err(escapes(&last_target));
                }
                continue;
            }
            let parent = parents.last().map_or(self.as_fd(), AsFd::as_fd);
            match kind_at(parent, &component).map_err(failed)? {
                Some(FileType::Symlink) => {
                    links += 1;
                    let target = rustix::fs::readlinkat(parent, &component, Vec::new()).map_err(failed)?;
                    last_target = OsString::from_vec(target.into_bytes());
                    if last_target.as_bytes().starts_with(b"/") {
                        return Err(escapes(&last_target));
                    }
                    if links > LINK_LIMIT {
                        return Ok(None);
                    }
                    pending.extend(reversed_components(&last_target));
                }
                Some(FileType::Directory) => parents.push(open_directory(parent, &component).map_err(failed)?),
                Some(FileType::RegularFile) if pending.is_empty() => {
                    return open_regular(parent, &component).map(Some).map_err(failed)
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }
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
pub(crate) fn kind_at(parent: BorrowedFd<'_>, name: &OsStr) -> Result<Option<FileType>, Errno> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(status) => Ok(Some(FileType::from_raw_mode(status.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn open_directory(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, OPEN_DIRECTORY.union(OFlags::NOFOLLOW), Mode::empty())
}

pub(crate) fn open_regular(parent: BorrowedFd<'_>, name: &OsStr) -> Result<File, Errno> {
    rustix::fs::openat(parent, name, OPEN_FILE.union(OFlags::NOFOLLOW), Mode::empty()).map(File::from)
}

/// The entries of an open directory by name, so that which error comes first does not depend on the file system.
pub(crate) fn entries(directory: BorrowedFd<'_>) -> Result<Vec<Entry>, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => kind_at(directory, &name)?.unwrap_or(FileType::Unknown),
            known => known,
        };
        found.push(Entry { name, kind });
    }
    found.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    Ok(found)
}
