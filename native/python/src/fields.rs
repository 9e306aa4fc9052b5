//! Single values that Python objects hold, read by the names of their fields.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors::{DataError, ShapeError};

/// What a field may hold.
pub(crate) trait Scalar<'py>: FromPyObjectOwned<'py> {
    const EXPECTED: &'static str;
}

macro_rules! scalars {
    ($($kind:ty: $expected:literal),+ $(,)?) => {
        $(impl<'py> Scalar<'py> for $kind {
            const EXPECTED: &'static str = $expected;
        })+
    };
}

scalars!(
    u16: "an integer from 0 to 2^16 - 1",
    u32: "an integer from 0 to 2^32 - 1",
    i64: "an integer from -2^63 to 2^63 - 1",
    f64: "a number",
    bool: "a bool",
    Bound<'py, PyString>: "a string",
    Bound<'py, PyBytes>: "an object of bytes",
);

/// The value of the field `name`; DataError where it is none of its kind.
pub(crate) fn scalar<'py, T: Scalar<'py>>(name: &'static str, value: &Bound<'py, PyAny>) -> PyResult<T> {
    value
        .extract()
        .map_err(|_| DataError::new_err(format!("{name}: {} where {} is expected", shown(value), T::EXPECTED)))
}

/// A value as Python writes it, or its type where that is long.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> String {
    const LONGEST: usize = 60;
    let written = value.repr().map(|text| text.to_string()).unwrap_or_default();
    if (1..=LONGEST).contains(&written.len()) {
        return written;
    }
    value.get_type().name().map(|name| name.to_string()).unwrap_or_default()
}

/// `field!(object, name)` reads the attribute `name`, and names it in errors so.
macro_rules! field {
    ($object:expr, $name:ident) => {{
        let value = $object.getattr(pyo3::intern!($object.py(), stringify!($name)))?;
        $crate::fields::scalar(stringify!($name), &value)?
    }};
}
pub(crate) use field;

/// The same error of one among several inputs, where it is about data.
pub(crate) fn within(py: Python<'_>, place: &str, error: PyErr) -> PyErr {
    let message = || format!("{place}.{}", error.value(py));
    if error.is_instance_of::<DataError>(py) {
        DataError::new_err(message())
    } else if error.is_instance_of::<ShapeError>(py) {
        ShapeError::new_err(message())
    } else {
        error
    }
}
