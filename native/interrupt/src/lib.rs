//! Whether long work should stop, as the program around it says.
//!
//! Work calls [`check`] every some milliseconds and passes its error on. A program sets one [`set_hook`], which is asked then, on the
//! thread that works; without one nothing is ever stopped. Threads that share work share a [`Stop`]: what stops one stops all.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static HOOK: OnceLock<fn() -> bool> = OnceLock::new();

thread_local! {
    static SHARED: RefCell<Option<Stop>> = const { RefCell::new(None) };
}

/// What is inside the error of [`check`].
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("interrupted")
    }
}

impl Error for Interrupted {}

/// Sets what is asked whether the work of this thread should stop. Only the first counts.
pub fn set_hook(hook: fn() -> bool) {
    HOOK.get_or_init(|| hook);
}

/// An error where the work of this thread should stop. Its kind is `Other`: what was interrupted here is not tried again.
pub fn check() -> io::Result<()> {
    let is_stopped = SHARED.with_borrow(|shared| shared.as_ref().is_some_and(Stop::is_set));
    if !is_stopped && !HOOK.get().is_some_and(|hook| hook()) {
        return Ok(());
    }
    SHARED.with_borrow(|shared| shared.iter().for_each(Stop::set));
    Err(io::Error::other(Interrupted))
}

/// Whether work that threads share should stop.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Does a thread's part of the work.
    pub fn share<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = SHARED.replace(Some(self.clone()));
        let result = work();
        SHARED.set(before);
        result
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static ASKS: Cell<bool> = const { Cell::new(false) };
    }

    #[test]
    fn what_stops_one_thread_stops_those_that_share_its_work() {
        check().expect("nothing is asked");
        set_hook(|| ASKS.get());
        let (stop, other) = (Stop::default(), Stop::default());
        std::thread::scope(|scope| {
            let works = |stop: &Stop, asks| {
                let stop = stop.clone();
                scope.spawn(move || {
                    ASKS.set(asks);
                    stop.share(|| while check().is_ok() {});
                    check().is_err()
                })
            };
            assert!(!works(&stop, true).join().is_ok_and(|asks| !asks), "the hook is asked still");
            assert!(!works(&stop, false).join().expect("ends"), "it shared what was stopped, and no more");
        });
        assert!(stop.is_set() && !other.is_set());
        other.share(check).expect("another work goes on");
        let error = stop.share(check).expect_err("stopped");
        assert!(error.get_ref().is_some_and(|inner| inner.is::<Interrupted>()) && error.kind() == io::ErrorKind::Other);
    }
}
