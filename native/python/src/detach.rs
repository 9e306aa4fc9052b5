//! The one place where the interpreter lock is released.

use platoon_rows::RowsError;
use pyo3::prelude::*;

use crate::errors::rows_error;

/// Below this many bytes of input, releasing the lock costs more than it gives.
const DETACH_ABOVE_BYTES: usize = 256 * 1024;

/// Runs a kernel on rows, without the interpreter lock where its input is large; its error becomes an exception.
pub(crate) fn on_rows<T: Send>(
    py: Python<'_>,
    input_bytes: usize,
    kernel: impl FnOnce() -> Result<T, RowsError> + Send,
) -> PyResult<T> {
    if input_bytes > DETACH_ABOVE_BYTES { py.detach(kernel) } else { kernel() }.map_err(rows_error)
}

/// Runs `work`, which reads or writes files, without the lock; its error becomes an exception.
pub(crate) fn detached<T: Send, E: Send>(
    py: Python<'_>,
    into_python: fn(E) -> PyErr,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    py.detach(work).map_err(into_python)
}
