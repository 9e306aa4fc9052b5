//! Walking a tree, with some threads or none, to a result that does not depend on how many.
//!
//! Work waits as tasks: a directory to list, or a stretch of a listed directory's files. Each holds the descriptor it starts from, so
//! nothing is looked up by a path.

use std::ffi::{CStr, CString, OsStr};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::FileType;

use crate::queue::{lock, Queue};
use crate::tree::{self, Entries, Root, DEPTH_LIMIT};
use crate::DigestError;

/// Files a task visits before it leaves the rest of its directory to others.
const STRETCH: usize = 256;
/// A tree of fewer files is done before threads would be.
const ALONE_BELOW_FILES: usize = 512;

/// A file or a link that a walk came to. `path` is relative to the root, with `/`.
pub(crate) struct Place<'a> {
    pub(crate) parent: BorrowedFd<'a>,
    pub(crate) name: &'a CStr,
    pub(crate) kind: FileType,
    pub(crate) path: &'a str,
}

/// What one thread keeps of the places it visits. All paths lie in one buffer: memory that threads ask for one place at a time, they
/// wait for.
pub(crate) struct Found<T> {
    paths: String,
    /// Where its path ends, and what is kept.
    items: Vec<(usize, T)>,
    /// Where each stretch begins: files of one directory, in order, that no directory divides. None lies inside another.
    stretches: Vec<usize>,
}

impl<T> Found<T> {
    fn new() -> Self {
        Self { paths: String::new(), items: Vec::new(), stretches: Vec::new() }
    }

    /// Adds an item; its number.
    pub(crate) fn push(&mut self, path: &str, item: T) -> usize {
        self.paths.push_str(path);
        self.items.push((self.paths.len(), item));
        self.items.len() - 1
    }

    pub(crate) fn item_mut(&mut self, number: usize) -> &mut T {
        &mut self.items[number].1
    }

    fn begin_stretch(&mut self) {
        if self.stretches.last() != Some(&self.items.len()) {
            self.stretches.push(self.items.len());
        }
    }

    fn path(&self, number: usize) -> &str {
        let start = number.checked_sub(1).map_or(0, |before| self.items[before].0);
        &self.paths[start..self.items[number].0]
    }
}

/// What a walk kept, in order of the paths' bytes.
pub(crate) struct Kept<T> {
    found: Vec<Found<T>>,
    /// Which of `found`, and which of its items.
    stretches: Vec<(usize, Range<usize>)>,
}

impl<T> Kept<T> {
    fn new(found: Vec<Found<T>>) -> Self {
        let mut stretches = Vec::with_capacity(found.iter().map(|one| one.stretches.len()).sum());
        for (index, one) in found.iter().enumerate() {
            let ends = one.stretches.iter().skip(1).copied().chain([one.items.len()]);
            let ranges = one.stretches.iter().zip(ends).map(|(start, end)| *start..end);
            stretches.extend(ranges.filter(|range| !range.is_empty()).map(|range| (index, range)));
        }
        stretches.sort_unstable_by(|(left, left_range), (right, right_range)| {
            found[*left].path(left_range.start).cmp(found[*right].path(right_range.start))
        });
        Self { found, stretches }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.stretches.iter().flat_map(|(index, range)| {
            let found = &self.found[*index];
            range.clone().map(|number| (found.path(number), &found.items[number].1))
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.found.iter().map(|one| one.items.len()).sum()
    }
}

/// What a walk does with the places it comes to.
pub(crate) trait Visit: Sync {
    type Item: Send;
    /// Buffers and the like, used by one task at a time.
    type Worker: Send;

    fn worker(&self) -> Self::Worker;

    /// Looks at one place; what is kept of it goes to the end of `found`. An error ends the walk.
    fn visit(
        &self,
        place: &Place<'_>,
        worker: &mut Self::Worker,
        found: &mut Found<Self::Item>,
    ) -> Result<(), DigestError>;

    /// Completes what `visit` added to `found`. Nothing of it may stay with the worker.
    fn finish(&self, worker: &mut Self::Worker, found: &mut Found<Self::Item>);
}

/// Visits each regular file and each link below `entries` of the root.
///
/// Links are not followed; other kinds are passed over. Of several errors the one whose path comes first is given.
pub(crate) fn walk<V: Visit>(
    root: &Root,
    entries: Entries,
    threads: usize,
    visit: &V,
) -> Result<Kept<V::Item>, DigestError> {
    let walk =
        Walk { root, visit, found: Mutex::default(), failure: Mutex::default(), has_failed: AtomicBool::new(false) };
    let mut left = vec![Task::Files {
        directory: root.shared(),
        range: 0..entries.len(),
        entries: Arc::new(entries),
        path: String::new(),
        depth: 0,
    }];
    let mut files = 0;
    let mut hand = Hand::new(visit);
    while threads <= 1 || files < ALONE_BELOW_FILES {
        let Some(task) = left.pop() else { break };
        files += walk.run(task, &mut hand, &mut left);
    }
    walk.gather(hand);
    if !left.is_empty() {
        let ran = Queue::new(left).run(threads, |mut tasks| {
            let (mut hand, mut left) = (Hand::new(visit), Vec::new());
            while let Some(task) = tasks.next(&mut left) {
                walk.run(task, &mut hand, &mut left);
            }
            walk.gather(hand);
        });
        ran.map_err(|error| DigestError::io(root.name(""), error))?;
    }
    walk.finish()
}

/// What one thread works with.
struct Hand<V: Visit> {
    worker: V::Worker,
    found: Found<V::Item>,
    /// A listing that is done with, for its memory.
    entries: Entries,
}

impl<V: Visit> Hand<V> {
    fn new(visit: &V) -> Self {
        Self { worker: visit.worker(), found: Found::new(), entries: Entries::default() }
    }
}

enum Task {
    Directory { parent: Arc<OwnedFd>, name: CString, path: String, depth: usize },
    Files { directory: Arc<OwnedFd>, entries: Arc<Entries>, range: Range<usize>, path: String, depth: usize },
}

impl Task {
    fn path(&self) -> &str {
        match self {
            Self::Directory { path, .. } | Self::Files { path, .. } => path,
        }
    }
}

struct Walk<'a, V: Visit> {
    root: &'a Root,
    visit: &'a V,
    found: Mutex<Vec<Found<V::Item>>>,
    failure: Mutex<Option<(String, DigestError)>>,
    has_failed: AtomicBool,
}

impl<V: Visit> Walk<'_, V> {
    /// Does one task; what remains of its directory goes to `left`. How many files it visited.
    fn run(&self, task: Task, hand: &mut Hand<V>, left: &mut Vec<Task>) -> usize {
        if self.is_past_failure(task.path()) {
            return 0;
        }
        let mut files = 0;
        if let Err((path, error)) = self.visit_entries(task, hand, left, &mut files) {
            self.fail(path, error);
        }
        self.visit.finish(&mut hand.worker, &mut hand.found);
        files
    }

    fn visit_entries(
        &self,
        task: Task,
        hand: &mut Hand<V>,
        left: &mut Vec<Task>,
        files: &mut usize,
    ) -> Result<(), (String, DigestError)> {
        let (directory, entries, range, mut path, depth) = match task {
            Task::Files { directory, entries, range, path, depth } => (directory, entries, range, path, depth),
            Task::Directory { parent, name, path, depth } => {
                let mut entries = std::mem::take(&mut hand.entries);
                match self.list(&parent, &name, &path, depth, &mut entries) {
                    Ok(directory) => (Arc::new(directory), Arc::new(entries), 0..usize::MAX, path, depth),
                    Err(error) => return Err((path, error)),
                }
            }
        };
        hand.found.begin_stretch();
        let base = path.len();
        for index in range.start..range.end.min(entries.len()) {
            path.truncate(base);
            if let Err(error) = platoon_interrupt::check() {
                let shown = self.root.name(&path);
                return Err((path, DigestError::io(shown, error)));
            }
            if *files == STRETCH {
                left.push(Task::Files { directory, entries, range: index..range.end, path, depth });
                return Ok(());
            }
            let (name, kind) = entries.get(index);
            if base > 0 {
                path.push('/');
            }
            let Ok(text) = name.to_str() else {
                let shown = self.root.name(&path[..base]).join(OsStr::from_bytes(name.to_bytes()));
                path.push_str(&name.to_string_lossy());
                return Err((path, DigestError::NameNotUtf8 { path: shown }));
            };
            path.push_str(text);
            if kind == FileType::Directory {
                let (parent, name) = (Arc::clone(&directory), name.to_owned());
                left.push(Task::Directory { parent, name, path: path.clone(), depth: depth + 1 });
                hand.found.begin_stretch();
            } else if matches!(kind, FileType::RegularFile | FileType::Symlink) {
                *files += 1;
                let place = Place { parent: directory.as_fd(), name, kind, path: &path };
                if let Err(error) = self.visit.visit(&place, &mut hand.worker, &mut hand.found) {
                    return Err((path, error));
                }
            }
        }
        hand.entries = Arc::try_unwrap(entries).unwrap_or_default();
        Ok(())
    }

    /// Opens a directory and lists it into `entries`.
    fn list(
        &self,
        parent: &OwnedFd,
        name: &CStr,
        path: &str,
        depth: usize,
        entries: &mut Entries,
    ) -> Result<OwnedFd, DigestError> {
        if depth > DEPTH_LIMIT {
            return Err(DigestError::TooDeep { path: self.root.name(path), limit: DEPTH_LIMIT });
        }
        let failed = |error| DigestError::io(self.root.name(path), error);
        let directory = tree::open_directory(parent.as_fd(), name).map_err(failed)?;
        entries.read(directory.as_fd()).map_err(failed)?;
        Ok(directory)
    }

    fn fail(&self, path: String, error: DigestError) {
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(first, _)| path < *first) {
            *failure = Some((path, error));
        }
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Everything below `path` comes after the first failure, so it cannot change what is reported.
    fn is_past_failure(&self, path: &str) -> bool {
        self.has_failed.load(Ordering::Relaxed)
            && lock(&self.failure).as_ref().is_some_and(|(first, _)| path > first.as_str())
    }

    fn gather(&self, hand: Hand<V>) {
        lock(&self.found).push(hand.found);
    }

    fn finish(self) -> Result<Kept<V::Item>, DigestError> {
        if let Some((_, error)) = self.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        Ok(Kept::new(self.found.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }
}
