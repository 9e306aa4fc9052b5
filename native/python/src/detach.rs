//! The one place where the interpreter lock is released.

use pyo3::prelude::*;

/// Below this many bytes of input, releasing the lock costs more than it gives.
const DETACH_ABOVE_BYTES: usize = 256 * 1024;

/// Runs `work` without the interpreter lock where the input is large.
pub(crate) fn detach_above<T: Send>(py: Python<'_>, input_bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    if input_bytes > DETACH_ABOVE_BYTES {
        py.detach(work)
    } else {
        work()
    }
}

/// Runs `work`, which reads or writes files, without the lock; its error becomes an exception.
pub(crate) fn detached<T: Send, E: Send>(
    py: Python<'_>,
    into_python: fn(E) -> PyErr,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    py.detach(work).map_err(into_python)
}
