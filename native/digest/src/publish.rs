//! Puts task directories where they are found by content: copied and hashed in one reading, with canonical modes, seen whole or not at all.
//!
//! What is published holds the files that the content hash covers and the `.gitignore` that decides which those are: directories and
//! programs 0755, other files 0644, no owner, time or link of the source. The digest is taken from the bytes that were written, so it
//! is right whatever happens to the source meanwhile.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::content::{candidates, hash_task_root, read_rules, HashedFile, HashedTask, IGNORE_FILE};
use crate::file::{hex, status_of_regular, Reader, Sha256Bytes};
use crate::ignore::IgnoreRules;
use crate::owned;
use crate::tree::{self, Root};
use crate::walk::{walk, Found, Place, Visit};
use crate::DigestError;

const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const PROGRAM_MODE: Mode = Mode::from_raw_mode(0o755);
/// What a file that an interpreter runs starts with.
const PROGRAM_MARK: &[u8] = b"#!";
/// Until it is whole, a file is its writer's alone.
const PARTIAL_MODE: Mode = Mode::from_raw_mode(0o600);

/// Where and how a task is published.
#[derive(Debug, Clone, Copy)]
pub struct Publication<'a> {
    /// A directory that is there; links on the way to it are followed, below it none is.
    pub base: &'a Path,
    /// Where tasks lie by the hex of their digests, relative to `base`; made where it is missing.
    pub tasks: &'a Path,
    /// Where the task is put together, relative to `base`: on the same file system, with a name that is free.
    pub staged: &'a Path,
    /// Files that are programs though neither their name nor their first bytes say so.
    pub programs: &'a HashSet<String>,
    /// What the digest must be.
    pub expected: Option<Sha256Bytes>,
    /// Whether all of it has reached the disk before it gets its name. Without, `sync_file_system` makes many durable at once.
    pub is_durable: bool,
}

/// What became of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was put into its place.
    Copied,
    /// It was in its place and is what its name says.
    Found,
    /// It is not the one that was expected, and was not published.
    Changed,
}

/// The task as it was read, from its source or from its place.
#[derive(Debug)]
pub struct Published {
    pub task: HashedTask,
    pub outcome: Outcome,
}

/// Publishes the task directory `source`.
///
/// An entry of the same name that does not hold what its name says is replaced. Links must lead to files of the task. What was staged
/// is gone afterwards, whatever happened.
pub fn publish_task(source: &Path, publication: Publication<'_>) -> Result<Published, DigestError> {
    let Publication { base, tasks, staged, .. } = publication;
    let place = owned::open_below(base, tasks)?;
    if let Some(expected) = publication.expected {
        if let Some(task) = matching(place.as_fd(), publication, expected)? {
            return Ok(Published { task, outcome: Outcome::Found });
        }
    }
    let name = staged.file_name().ok_or_else(|| DigestError::io(base.join(staged), Errno::INVAL))?;
    let staging = owned::open_below(base, staged.parent().unwrap_or(Path::new("")))?;
    let failed = |error| DigestError::io(base.join(staged), error);
    let directory = owned::make(staging.as_fd(), name).map_err(failed)?;
    let published = Copy::new(source, directory, &base.join(staged), publication).and_then(|copy| {
        let task = copy.run()?;
        let outcome = match publication.expected {
            Some(expected) if expected != task.sha256 => Outcome::Changed,
            _ => put(&staging, name, &place, task.sha256, publication)?,
        };
        Ok(Published { task, outcome })
    });
    // Empty by now, or what could not be published, or what stood in the place.
    let _ = owned::remove(staging.as_fd(), name);
    published
}

/// Makes everything written to a file system durable, published tasks among it.
pub fn sync_file_system(path: &Path) -> Result<(), DigestError> {
    let failed = |error| DigestError::io(path, error);
    let directory = rustix::fs::open(path, tree::OPEN_DIRECTORY, Mode::empty()).map_err(failed)?;
    rustix::fs::syncfs(&directory).map_err(failed)
}

/// The task in `place` whose name is `digest`, where it is what its name says. Its programs are made programs: whoever published it
/// may not have known of them.
fn matching(
    place: BorrowedFd<'_>,
    publication: Publication<'_>,
    digest: Sha256Bytes,
) -> Result<Option<HashedTask>, DigestError> {
    let name = hex(&digest);
    let Ok(directory) = tree::open_directory(place, name.as_str()) else { return Ok(None) };
    let root = Root::of(directory, &publication.base.join(publication.tasks).join(&name));
    let Ok(task) = hash_task_root(&root, 1) else { return Ok(None) };
    if task.sha256 != digest {
        return Ok(None);
    }
    for file in task.files.iter().filter(|file| publication.programs.contains(&file.path)) {
        let opened = root.open_named(&file.path)?;
        if status_of_regular(&opened, || root.name(&file.path))?.mode != PROGRAM_MODE.as_raw_mode() {
            rustix::fs::fchmod(&opened, PROGRAM_MODE).map_err(|error| DigestError::io(root.name(&file.path), error))?;
        }
    }
    Ok(Some(task))
}

/// Gives the staged task its name, in a place that is free or not rightly taken.
fn put(
    staging: &OwnedFd,
    staged: &OsStr,
    place: &OwnedFd,
    digest: Sha256Bytes,
    publication: Publication<'_>,
) -> Result<Outcome, DigestError> {
    let name = hex(&digest);
    let shown = publication.base.join(publication.tasks).join(&name);
    let failed = |error| DigestError::io(&shown, error);
    match rustix::fs::renameat(staging, staged, place, name.as_str()) {
        Ok(()) => {}
        Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {
            if matching(place.as_fd(), publication, digest)?.is_some() {
                return Ok(Outcome::Found);
            }
            exchange(staging, staged, place, &name).map_err(failed)?;
        }
        Err(error) => return Err(failed(error)),
    }
    if publication.is_durable {
        rustix::fs::fsync(place).map_err(failed)?;
    }
    Ok(Outcome::Copied)
}

/// Puts the staged tree in the place of one that is wrong, which ends up under the staged name.
fn exchange(staging: &OwnedFd, staged: &OsStr, place: &OwnedFd, name: &str) -> Result<(), Errno> {
    match rustix::fs::renameat_with(staging, staged, place, name, RenameFlags::EXCHANGE) {
        // Not every file system exchanges: there the place is empty for a moment.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            let mut aside = staged.to_owned();
            aside.push(".aside");
            rustix::fs::renameat(place, name, staging, &aside)?;
            rustix::fs::renameat(staging, staged, place, name)?;
            let _ = owned::remove(staging.as_fd(), &aside);
            Ok(())
        }
        result => result,
    }
}

/// A task on its way into the staged directory.
struct Copy<'a> {
    source: Root,
    rules: IgnoreRules,
    ignore_file: Option<Vec<u8>>,
    target: Target<'a>,
}

impl<'a> Copy<'a> {
    fn new(source: &Path, directory: OwnedFd, shown: &Path, publication: Publication<'a>) -> Result<Self, DigestError> {
        let source = Root::open(source)?;
        let (rules, ignore_file) = read_rules(&source)?;
        let target = Target {
            root: Root::of(directory, shown),
            entered: Default::default(),
            programs: publication.programs,
            is_durable: publication.is_durable,
            can_clone: true,
            reader: Reader::new(),
        };
        Ok(Self { source, rules, ignore_file, target })
    }

    fn run(mut self) -> Result<HashedTask, DigestError> {
        let places = walk(&self.source, candidates(&self.source)?, 1, &ListVisit(&self.rules))?;
        let mut files = Vec::with_capacity(places.len());
        for (path, kind) in places.iter() {
            let Some(file) = self.source.open_file(path.as_ref())? else {
                return Err(match *kind {
                    FileType::Symlink => DigestError::LinkToNoFile { path: self.source.name(path) },
                    _ => DigestError::io(self.source.name(path), Errno::NOENT),
                });
            };
            files.push(self.target.write(&self.source, path.to_owned(), file)?);
        }
        if let Some(text) = self.ignore_file.take() {
            self.target.write_bytes(IGNORE_FILE, &text)?;
        }
        self.target.finish()?;
        Ok(HashedTask::of(files))
    }
}

/// Lists what enters, links included.
struct ListVisit<'a>(&'a IgnoreRules);

impl Visit for ListVisit<'_> {
    type Item = FileType;
    type Worker = ();

    fn worker(&self) {}

    fn visit(&self, place: &Place<'_>, _: &mut (), found: &mut Found<FileType>) -> Result<(), DigestError> {
        if !self.0.is_ignored(place.path) {
            found.push(place.path, place.kind);
        }
        Ok(())
    }

    fn finish(&self, _: &mut (), _: &mut Found<FileType>) {}
}

/// The staged directory, written in order of paths.
struct Target<'a> {
    root: Root,
    /// The directory written to last, by its relative path: it and those it lies in, the outermost first.
    entered: (String, Vec<OwnedFd>),
    programs: &'a HashSet<String>,
    is_durable: bool,
    /// Whether the file system may share a file's blocks between source and copy; false after it refused once.
    can_clone: bool,
    reader: Reader,
}

impl Target<'_> {
    /// Copies an open file; what was written.
    fn write(&mut self, source: &Root, path: String, file: File) -> Result<HashedFile, DigestError> {
        let status = status_of_regular(&file, || source.name(&path))?;
        let mut target = self.create(&path)?;
        let mut digest = Sha256::new();
        let mut start = Vec::new();
        let mut take = |bytes: &[u8]| {
            if start.len() < PROGRAM_MARK.len() {
                start.extend_from_slice(&bytes[..bytes.len().min(PROGRAM_MARK.len())]);
            }
            digest.update(bytes);
        };
        let read = if self.clone_blocks(&file, &target, status.size_bytes) {
            self.reader.read_all(&target, status.size_bytes, |bytes| {
                take(bytes);
                Ok(())
            })
        } else {
            self.reader.read_all(file, status.size_bytes, |bytes| {
                take(bytes);
                target.write_all(bytes)
            })
        };
        let size_bytes = read.map_err(|error| DigestError::io(self.root.name(&path), error))?;
        let is_program = start.starts_with(PROGRAM_MARK)
            || Path::new(&path).extension() == Some(OsStr::new("sh"))
            || self.programs.contains(&path);
        self.complete(&path, &target, if is_program { PROGRAM_MODE } else { FILE_MODE })?;
        Ok(HashedFile { path, sha256: digest.finalize().into(), size_bytes })
    }

    fn write_bytes(&mut self, path: &str, bytes: &[u8]) -> Result<(), DigestError> {
        let mut target = self.create(path)?;
        target.write_all(bytes).map_err(|error| DigestError::io(self.root.name(path), error))?;
        self.complete(path, &target, FILE_MODE)
    }

    fn create(&mut self, path: &str) -> Result<File, DigestError> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.enter(parent)?;
        let directory = self.entered.1.last().map_or(self.root.as_fd(), AsFd::as_fd);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(directory, name, flags, PARTIAL_MODE)
            .map(File::from)
            .map_err(|error| DigestError::io(self.root.name(path), error))
    }

    /// Makes `path` the directory that is written to.
    fn enter(&mut self, path: &str) -> Result<(), DigestError> {
        if self.entered.0 == path {
            return Ok(());
        }
        self.leave()?;
        let mut directories: Vec<OwnedFd> = Vec::new();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let parent = directories.last().map_or(self.root.as_fd(), AsFd::as_fd);
            let opened = owned::open_or_make(parent, name.as_ref());
            directories.push(opened.map_err(|error| DigestError::io(self.root.name(path), error))?);
        }
        self.entered = (path.to_owned(), directories);
        Ok(())
    }

    fn leave(&mut self) -> Result<(), DigestError> {
        let (path, directories) = std::mem::take(&mut self.entered);
        if self.is_durable {
            let synced = directories.iter().rev().try_for_each(rustix::fs::fsync);
            synced.map_err(|error| DigestError::io(self.root.name(&path), error))?;
        }
        Ok(())
    }

    /// Lets the file system give the copy the source's blocks; false where it does not.
    fn clone_blocks(&mut self, source: &File, target: &File, size_bytes: u64) -> bool {
        self.can_clone = self.can_clone && (size_bytes == 0 || rustix::fs::ioctl_ficlone(target, source).is_ok());
        self.can_clone && size_bytes > 0
    }

    fn complete(&self, path: &str, target: &File, mode: Mode) -> Result<(), DigestError> {
        let failed = |error| DigestError::io(self.root.name(path), error);
        rustix::fs::fchmod(target, mode).map_err(failed)?;
        if self.is_durable {
            rustix::fs::fsync(target).map_err(failed)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), DigestError> {
        self.leave()?;
        if self.is_durable {
            rustix::fs::fsync(self.root.as_fd()).map_err(|error| DigestError::io(self.root.name(""), error))?;
        }
        Ok(())
    }
}
