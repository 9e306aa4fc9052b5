//! Walking a tree, with some threads or none, to a result that does not depend on how many.
//!
//! Work waits as tasks: a directory to list, or a stretch of a listed directory's files. Each holds the descriptor it starts from, so
//! nothing is looked up by a path. Threads live for one call: none is there before it or after it, and a process that forks between
//! calls forks none.

use std::ffi::{CStr, CString};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::FileType;

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

/// What is kept of the places visited, by path.
pub(crate) type Found<T> = Vec<(String, T)>;

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

/// Visits each regular file and each link below `entries` of the root; what was kept, in order of the paths' bytes.
///
/// Links are not followed; other kinds are passed over. Of several errors the one whose path comes first is given.
pub(crate) fn walk<V: Visit>(
    root: &Root,
    entries: Entries,
    threads: usize,
    visit: &V,
) -> Result<Found<V::Item>, DigestError> {
    let walk = Walk {
        root,
        visit,
        found: Mutex::default(),
        failure: Mutex::default(),
        has_failed: AtomicBool::new(false),
        workers: Mutex::default(),
    };
    let mut pending = vec![Task::Files {
        directory: root.shared(),
        range: 0..entries.len(),
        entries: Arc::new(entries),
        path: String::new(),
        depth: 0,
    }];
    let mut visited_files = 0;
    while threads <= 1 || visited_files < ALONE_BELOW_FILES {
        let Some(task) = pending.pop() else { break };
        visited_files += walk.run(task, &mut |task| pending.push(task));
    }
    if !pending.is_empty() {
        walk.share(pending, threads);
    }
    walk.finish()
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
    /// One sorted list a task.
    found: Mutex<Vec<Found<V::Item>>>,
    failure: Mutex<Option<(String, DigestError)>>,
    has_failed: AtomicBool,
    workers: Mutex<Vec<V::Worker>>,
}

impl<V: Visit> Walk<'_, V> {
    /// Runs tasks and those they leave behind on threads of this call alone.
    fn share(&self, pending: Vec<Task>, threads: usize) {
        // Whoever finds the slot empty has nothing left to do; it is full at the end only where no thread could be started.
        let slot = Mutex::new(pending);
        let shared = rayon::ThreadPoolBuilder::new().num_threads(threads).build_scoped(
            |thread| thread.run(),
            |pool| {
                let pending = std::mem::take(&mut *lock(&slot));
                pool.scope(|scope| pending.into_iter().for_each(|task| self.spawn(scope, task)));
            },
        );
        if shared.is_err() {
            let mut pending = std::mem::take(&mut *lock(&slot));
            while let Some(task) = pending.pop() {
                self.run(task, &mut |task| pending.push(task));
            }
        }
    }

    fn spawn<'scope>(&'scope self, scope: &rayon::Scope<'scope>, task: Task) {
        scope.spawn(move |scope| {
            self.run(task, &mut |task| self.spawn(scope, task));
        });
    }

    /// Does one task; what remains of its directory goes to `leave`. How many files it visited.
    fn run(&self, task: Task, leave: &mut dyn FnMut(Task)) -> usize {
        if self.is_past_failure(task.path()) {
            return 0;
        }
        let mut worker = lock(&self.workers).pop().unwrap_or_else(|| self.visit.worker());
        let mut found = Vec::new();
        let count = self.run_task(task, leave, &mut worker, &mut found);
        self.visit.finish(&mut worker, &mut found);
        lock(&self.workers).push(worker);
        if !found.is_empty() {
            lock(&self.found).push(found);
        }
        count
    }

    fn run_task(
        &self,
        task: Task,
        leave: &mut dyn FnMut(Task),
        worker: &mut V::Worker,
        found: &mut Found<V::Item>,
    ) -> usize {
        let (directory, entries, range, mut path, depth) = match task {
            Task::Files { directory, entries, range, path, depth } => (directory, entries, range, path, depth),
            Task::Directory { parent, name, path, depth } => match self.list(&parent, &name, &path, depth) {
                Ok((directory, entries)) => {
                    let range = 0..entries.len();
                    (Arc::new(directory), Arc::new(entries), range, path, depth)
                }
                Err(error) => {
                    self.fail(path, error);
                    return 0;
                }
            },
        };
        let mut count = 0;
        let base = path.len();
        for index in range.clone() {
            if count == STRETCH {
                path.truncate(base);
                let range = index..range.end;
                leave(Task::Files { directory, entries, range, path, depth });
                return count;
            }
            let (name, kind) = entries.get(index);
            path.truncate(base);
            if base > 0 {
                path.push('/');
            }
            let Ok(text) = name.to_str() else {
                path.push_str(&name.to_string_lossy());
                let name = std::ffi::OsStr::from_bytes(name.to_bytes());
                let error = DigestError::NameNotUtf8 { path: self.root.name(&path[..base]).join(name) };
                self.fail(path, error);
                return count;
            };
            path.push_str(text);
            if kind == FileType::Directory {
                let (parent, name) = (Arc::clone(&directory), name.to_owned());
                leave(Task::Directory { parent, name, path: path.clone(), depth: depth + 1 });
            } else if matches!(kind, FileType::RegularFile | FileType::Symlink) {
                count += 1;
                let place = Place { parent: directory.as_fd(), name, kind, path: &path };
                if let Err(error) = self.visit.visit(&place, worker, found) {
                    self.fail(path, error);
                    return count;
                }
            }
        }
        count
    }

    fn list(&self, parent: &OwnedFd, name: &CStr, path: &str, depth: usize) -> Result<(OwnedFd, Entries), DigestError> {
        if depth > DEPTH_LIMIT {
            return Err(DigestError::TooDeep { path: self.root.name(path), limit: DEPTH_LIMIT });
        }
        let failed = |error| DigestError::io(self.root.name(path), error);
        let directory = tree::open_directory(parent.as_fd(), name).map_err(failed)?;
        let entries = Entries::read(directory.as_fd()).map_err(failed)?;
        Ok((directory, entries))
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

    fn finish(self) -> Result<Found<V::Item>, DigestError> {
        if let Some((_, error)) = self.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let mut lists = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        lists.sort_unstable_by(|left, right| left[0].0.cmp(&right[0].0));
        let mut found = Vec::with_capacity(lists.iter().map(Vec::len).sum());
        found.extend(lists.into_iter().flatten());
        // Stable for its use of runs: the lists are sorted, and few lie inside each other.
        found.sort_by(|left: &(String, V::Item), right| left.0.cmp(&right.0));
        Ok(found)
    }
}

/// A visit that panicked ends the walk with its panic; what the lock holds is whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
