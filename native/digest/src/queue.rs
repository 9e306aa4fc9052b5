//! Tasks that leave tasks, shared among threads of one call.
//!
//! No thread is there before `Queue::run` or after it, and none is in a child that is forked between calls.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use platoon_interrupt::Stop;

/// As long may a thread that waits for others take to see that all should stop.
const WAIT: Duration = Duration::from_millis(50);

/// Tasks that wait, the last left first.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    stop: Stop,
}

struct State<T> {
    tasks: Vec<T>,
    /// How many tasks are being done, which may leave others.
    busy: usize,
    /// A task panicked: nobody waits for what it would have left.
    is_broken: bool,
}

/// One thread's way to tasks.
pub(crate) struct Taker<'a, T> {
    queue: &'a Queue<T>,
    is_busy: bool,
}

impl<T: Send> Queue<T> {
    pub(crate) fn new(tasks: Vec<T>) -> Self {
        Self {
            state: Mutex::new(State { tasks, busy: 0, is_broken: false }),
            changed: Condvar::new(),
            stop: Stop::default(),
        }
    }

    /// Calls `work` on up to `threads` threads, this one among them, and returns when all have ended. A system that gives fewer threads
    /// has fewer that work. An error where they were stopped: not every task was done then.
    pub(crate) fn run(&self, threads: usize, work: impl Fn(Taker<'_, T>) + Sync) -> io::Result<()> {
        let work = || self.stop.share(|| work(Taker { queue: self, is_busy: false }));
        std::thread::scope(|scope| {
            for _ in 1..threads {
                if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
        self.stop.share(platoon_interrupt::check)
    }
}

impl<T> Taker<'_, T> {
    /// The next task, after the one before is done and left `left`. `None` where no task is left and none can be.
    pub(crate) fn next(&mut self, left: &mut Vec<T>) -> Option<T> {
        let mut state = lock(&self.queue.state);
        state.busy -= usize::from(std::mem::take(&mut self.is_busy));
        let is_news = !left.is_empty() || state.busy == 0;
        state.tasks.append(left);
        if is_news {
            self.queue.changed.notify_all();
        }
        loop {
            if state.is_broken {
                return None;
            }
            if let Some(task) = state.tasks.pop() {
                state.busy += 1;
                self.is_busy = true;
                return Some(task);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.queue.changed.wait_timeout(state, WAIT).unwrap_or_else(PoisonError::into_inner).0;
            if platoon_interrupt::check().is_err() {
                return None;
            }
        }
    }
}

impl<T> Drop for Taker<'_, T> {
    fn drop(&mut self) {
        if self.is_busy {
            lock(&self.queue.state).is_broken = true;
            self.queue.changed.notify_all();
        }
    }
}

/// What `work` makes of each item, in the order of the items, on up to `threads` threads that each have a worker of their own. An error
/// where they were stopped.
pub(crate) fn in_order<T: Sync, W, R: Send>(
    items: &[T],
    threads: usize,
    worker: impl Fn() -> W + Sync,
    work: impl Fn(&T, &mut W) -> R + Sync,
) -> io::Result<Vec<R>> {
    if threads <= 1 || items.len() <= 1 {
        let mut worker = worker();
        return Ok(items.iter().map(|item| work(item, &mut worker)).collect());
    }
    let made = Mutex::new(items.iter().map(|_| None).collect::<Vec<Option<R>>>());
    Queue::new((0..items.len()).rev().collect()).run(threads.min(items.len()), |mut indexes| {
        let mut worker = worker();
        while let Some(index) = indexes.next(&mut Vec::new()) {
            let one = work(&items[index], &mut worker);
            lock(&made)[index] = Some(one);
        }
    })?;
    Ok(made.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect())
}

/// What such a lock holds is whole at any moment, so a panic elsewhere is no reason for another here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_task_is_done_once_whoever_left_it() {
        for threads in [1, 2, 5] {
            let done = Mutex::new(Vec::new());
            let queue = Queue::new(vec![(1u32, 8u32)]);
            let ran = queue.run(threads, |mut tasks| {
                let mut left = Vec::new();
                while let Some((name, depth)) = tasks.next(&mut left) {
                    lock(&done).push(name);
                    if depth > 0 {
                        left.extend([(2 * name, depth - 1), (2 * name + 1, depth - 1)]);
                    }
                }
            });
            ran.expect("is not stopped");
            let mut done = done.into_inner().expect("whole");
            done.sort_unstable();
            assert_eq!(done, (1..512).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_panic_ends_all_and_is_passed_on() {
        let queue = Queue::new(vec![1, 2, 3, 4, 5, 6]);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = queue.run(3, |mut tasks| {
                while let Some(task) = tasks.next(&mut Vec::new()) {
                    assert!(task != 3, "three");
                }
            });
        }));
        assert!(result.is_err());
    }
}
