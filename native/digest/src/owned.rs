//! Directories that this project owns: made, opened and removed below a descriptor, a link in no component followed.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use crate::tree::{self, Entries, DEPTH_LIMIT, OPEN_DIRECTORY};
use crate::DigestError;

/// What directories of a cache are, whatever the umask.
pub(crate) const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);

/// Opens `relative` below `base`, making what is missing. `base` itself is opened as any path is; below it a link is an error.
pub(crate) fn open_below(base: &Path, relative: &Path) -> Result<OwnedFd, DigestError> {
    let mut path = base.to_path_buf();
    let mut directory =
        rustix::fs::open(base, OPEN_DIRECTORY, Mode::empty()).map_err(|error| DigestError::io(base, error))?;
    for component in relative.components() {
        path.push(component);
        let Component::Normal(name) = component else {
            return Err(DigestError::io(path, Errno::INVAL));
        };
        directory = match open_or_make(directory.as_fd(), name) {
            Ok(opened) => opened,
            Err(_) if matches!(tree::kind_at(directory.as_fd(), name), Ok(Some(FileType::Symlink))) => {
                return Err(DigestError::LinkedPlace { path })
            }
            Err(error) => return Err(DigestError::io(path, error)),
        };
    }
    Ok(directory)
}

/// Opens a directory, which is made where it is missing.
pub(crate) fn open_or_make(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    match tree::open_directory(parent, name) {
        Err(Errno::NOENT) => match make(parent, name) {
            Err(Errno::EXIST) => tree::open_directory(parent, name),
            made => made,
        },
        opened => opened,
    }
}

/// Makes a directory that was not there.
pub(crate) fn make(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    rustix::fs::mkdirat(parent, name, DIRECTORY_MODE)?;
    let made = tree::open_directory(parent, name)?;
    rustix::fs::fchmod(&made, DIRECTORY_MODE)?;
    Ok(made)
}

/// Removes a file, a link or a whole tree. Nothing there is fine; what cannot be removed stays, for whoever sweeps the place.
pub(crate) fn remove(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    remove_to_depth(parent, name, 0)
}

fn remove_to_depth(parent: BorrowedFd<'_>, name: &OsStr, depth: usize) -> Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // A directory: EISDIR on Linux, EPERM as POSIX has it.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    if depth > DEPTH_LIMIT {
        return Err(Errno::NAMETOOLONG);
    }
    let directory = tree::open_directory(parent, name)?;
    let mut entries = Entries::default();
    entries.read(directory.as_fd())?;
    for index in 0..entries.len() {
        let (entry, _) = entries.get(index);
        remove_to_depth(directory.as_fd(), std::os::unix::ffi::OsStrExt::from_bytes(entry.to_bytes()), depth + 1)?;
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}
