//! The one place where the interpreter lock is released.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use platoon_rows::RowsError;
use pyo3::prelude::*;

use crate::errors::rows_error;

/// Below this many bytes of input, releasing the lock costs more than it gives.
const DETACH_ABOVE_BYTES: usize = 256 * 1024;
/// As long may a signal wait for its handler.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Runs a kernel on rows, without the interpreter lock where its input is large; its error becomes an exception.
pub(crate) fn on_rows<T: Send>(
    py: Python<'_>,
    input_bytes: usize,
    kernel: impl FnOnce() -> Result<T, RowsError> + Send,
) -> PyResult<T> {
    on_memory(py, input_bytes, kernel).map_err(rows_error)
}

/// Runs `work` on what lies in memory, without the interpreter lock where that is large.
pub(crate) fn on_memory<T: Send>(py: Python<'_>, input_bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    if input_bytes > DETACH_ABOVE_BYTES {
        py.detach(work)
    } else {
        work()
    }
}

/// Runs `work`, which reads or writes files, without the lock; its error becomes an exception, as does what a signal raises meanwhile.
pub(crate) fn detached<T: Send, E: Send>(
    py: Python<'_>,
    into_python: fn(E) -> PyErr,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    let result = PENDING.with(|pending| {
        let before = pending.asked.replace(Some(Instant::now()));
        let result = py.detach(work);
        pending.asked.set(before);
        result
    });
    // What came of work that was stopped is nothing.
    match PENDING.with(|pending| pending.raised.take()) {
        Some(raised) => Err(raised),
        None => result.map_err(into_python),
    }
}

/// What a signal raised while a kernel ran. Only the thread that Python runs its handlers on ever has one.
struct Pending {
    /// When Python was last asked; none where no kernel runs without the lock.
    asked: Cell<Option<Instant>>,
    raised: RefCell<Option<PyErr>>,
}

thread_local! {
    static PENDING: Pending = const { Pending { asked: Cell::new(None), raised: RefCell::new(None) } };
}

/// The hook of long work: lets Python run the handlers of signals that came, every now and then.
pub(crate) fn is_interrupted() -> bool {
    PENDING.with(|pending| {
        if pending.raised.borrow().is_some() {
            return true;
        }
        if pending.asked.get().is_none_or(|asked| asked.elapsed() < ASK_EVERY) {
            return false;
        }
        let raised = Python::attach(|py| py.check_signals()).err();
        pending.asked.set(Some(Instant::now()));
        let is_raised = raised.is_some();
        if is_raised {
            pending.raised.replace(raised);
        }
        is_raised
    })
}
