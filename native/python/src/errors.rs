//! The one place where errors of the crates become Python exceptions.

use std::io;
use std::path::PathBuf;

use platoon_digest::DigestError;
use platoon_layers::{Fault, LayersError};
use platoon_rows::RowsError;
use platoon_squash::SquashError;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;

create_exception!(platoon._native, DataError, PyValueError, "Data that breaks a rule of its format.");
create_exception!(platoon._native, ShapeError, PyValueError, "Buffers whose shapes do not fit together.");
create_exception!(platoon._native, UnsupportedError, PyException, "Something well-formed that is not handled here.");

pub(crate) fn digest_error(error: DigestError) -> PyErr {
    match error {
        DigestError::Io { path, source } => os_error(path, &source),
        DigestError::NotAFile { .. }
        | DigestError::NotWithin { .. }
        | DigestError::Changed { .. }
        | DigestError::EscapingLink { .. }
        | DigestError::LinkToNoFile { .. }
        | DigestError::LinkedPlace { .. }
        | DigestError::TextNotUtf8 { .. }
        | DigestError::Pattern { .. } => DataError::new_err(error.to_string()),
        DigestError::LinkedDirectory { .. }
        | DigestError::NameNotUtf8 { .. }
        | DigestError::TooDeep { .. }
        | DigestError::Limit { .. } => UnsupportedError::new_err(error.to_string()),
    }
}

pub(crate) fn rows_error(error: RowsError) -> PyErr {
    if error.is_shape() {
        ShapeError::new_err(error.to_string())
    } else {
        DataError::new_err(error.to_string())
    }
}

pub(crate) fn layers_error(error: LayersError) -> PyErr {
    match error {
        LayersError::Io { path, source } => os_error(path, &source),
        LayersError::Unsupported { .. }
        | LayersError::Limit { .. }
        | LayersError::Entry { fault: Fault::Kind { .. } | Fault::Sparse { .. }, .. } => {
            UnsupportedError::new_err(error.to_string())
        }
        LayersError::NotAFile { .. }
        | LayersError::OutOfFile { .. }
        | LayersError::MediaType { .. }
        | LayersError::Compressed { .. }
        | LayersError::Size { .. }
        | LayersError::Digest { .. }
        | LayersError::Tar { .. }
        | LayersError::Entry { .. } => DataError::new_err(error.to_string()),
    }
}

pub(crate) fn squash_error(error: SquashError) -> PyErr {
    match error {
        SquashError::Io { path, source } => os_error(path, &source),
        SquashError::Unsupported { .. } | SquashError::Limit { .. } => UnsupportedError::new_err(error.to_string()),
        SquashError::NotAFile { .. }
        | SquashError::Magic { .. }
        | SquashError::OutOfFile { .. }
        | SquashError::Damaged { .. } => DataError::new_err(error.to_string()),
    }
}

/// Python picks the subclass (`FileNotFoundError`, ...) by errno.
fn os_error(path: PathBuf, source: &io::Error) -> PyErr {
    let Some(errno) = source.raw_os_error() else {
        return PyOSError::new_err(format!("{}: {source}", path.display()));
    };
    let text = source.to_string();
    PyOSError::new_err((errno, without_errno(&text).to_owned(), path.into_os_string()))
}

/// The text of an error without the number that Rust puts after what the system says.
pub(crate) fn without_errno(text: &str) -> &str {
    match text.rfind(" (os error ") {
        Some(end) if text.ends_with(')') => &text[..end],
        _ => text,
    }
}
