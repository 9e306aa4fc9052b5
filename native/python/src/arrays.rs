//! Typed arrays in and out.

use std::any::TypeId;

use numpy::{Element, PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use platoon_rows::{Block, OwnedBlock, Side};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{DataError, ShapeError};

pub(crate) type Array<'py, T> = Bound<'py, PyArray1<T>>;
pub(crate) type Input<'a, 'py> = &'a Bound<'py, PyAny>;

/// A contiguous one-dimensional array that Python lent.
pub(crate) struct Column<'py, T: Element> {
    name: &'static str,
    array: Array<'py, T>,
}

impl<'py, T: Element + 'static> Column<'py, T> {
    /// Refuses anything but an array of this dtype and one dimension.
    pub(crate) fn read(name: &'static str, object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let Ok(array) = object.cast::<PyArray1<T>>() else {
            let wanted = T::get_dtype(object.py());
            let got = match object.getattr("dtype") {
                Ok(dtype) => format!("{dtype} of {} dimensions", object.getattr("ndim")?),
                Err(_) => object.get_type().name()?.to_string(),
            };
            return Err(DataError::new_err(format!(
                "{name}: {got} where a 1-dimensional array of {wanted} is expected"
            )));
        };
        Ok(Self { name, array: array.clone() })
    }

    #[allow(
        unsafe_code,
        reason = "the numpy crate counts borrows among Rust users alone, in a table that takes longer than reading a small array"
    )]
    pub(crate) fn slice(&self) -> PyResult<&[T]> {
        if !self.array.is_contiguous() {
            return Err(ShapeError::new_err(format!("{}: not contiguous", self.name)));
        }
        if TypeId::of::<T>() == TypeId::of::<bool>() {
            self.check_bools()?;
        }
        // SAFETY: the array is held, and nothing here gives out a writable view of what Python lends. Python may write to an array
        // that a kernel reads without the lock, as it may under a counted borrow: callers pass arrays that are written no more.
        unsafe { self.array.as_slice() }.map_err(|_| ShapeError::new_err(format!("{}: not aligned", self.name)))
    }

    /// A bool of numpy's may be any byte, where one of Rust's is 0 or 1; of every other dtype here all bytes are values.
    #[allow(unsafe_code, reason = "what is not known to be a bool must be looked at as bytes")]
    fn check_bools(&self) -> PyResult<()> {
        // SAFETY: the array is held and contiguous, and its entries are of one byte, which any pointer is aligned for.
        let bytes = unsafe { std::slice::from_raw_parts(self.array.data().cast::<u8>(), self.array.len()) };
        // Without a way out at the first of them, which is several times as fast.
        if bytes.iter().fold(0, |all, byte| all | byte) <= 1 {
            return Ok(());
        }
        let index = bytes.iter().position(|&byte| byte > 1).unwrap_or_default();
        let message = format!("{}[{index}] is the byte {}: a bool is 0 or 1", self.name, bytes[index]);
        Err(DataError::new_err(message))
    }
}

/// The bytes of whatever contiguous buffer Python lent.
pub(crate) struct Bytes(PyUntypedBuffer);

impl Bytes {
    pub(crate) fn read(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if buffer.is_c_contiguous() {
            Ok(Self(buffer))
        } else {
            Err(ShapeError::new_err("bytes: not contiguous"))
        }
    }

    #[allow(
        unsafe_code,
        reason = "a safe view of a buffer has one type of entries, and ends where the lock is released"
    )]
    pub(crate) fn slice(&self) -> &[u8] {
        if self.0.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: the buffer is held and contiguous, and any entry is bytes. As with arrays, callers pass what is written no more.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast::<u8>(), self.0.len_bytes()) }
    }
}

/// Hands a vector to Python without a copy; the array is fresh and writable.
pub(crate) fn give<T: Element>(py: Python<'_>, values: Vec<T>) -> Bound<'_, PyArray1<T>> {
    PyArray1::from_vec(py, values)
}

/// `slices!(a, b)` turns the arguments `a` and `b` into the slices they lend, named in errors as they are here.
macro_rules! slices {
    ($($name:ident),+) => {
        $(
            let $name = $crate::arrays::Column::read(stringify!($name), $name)?;
            let $name = $name.slice()?;
        )+
    };
}
pub(crate) use slices;

/// A dict of a struct's fields by their names.
macro_rules! dict_of {
    ($py:expr, $from:ident, $($name:ident),+) => {{
        let made = pyo3::types::PyDict::new($py);
        $(made.set_item(stringify!($name), $from.$name)?;)+
        Ok(made)
    }};
}
pub(crate) use dict_of;

/// A dict of a struct's vectors by their names, each handed over as `give` does.
macro_rules! dict_of_arrays {
    ($py:expr, $from:ident, $($name:ident),+) => {{
        let made = pyo3::types::PyDict::new($py);
        $(made.set_item(stringify!($name), $crate::arrays::give($py, $from.$name))?;)+
        Ok(made)
    }};
}
pub(crate) use dict_of_arrays;

/// The columns of a block by name.
pub(crate) fn give_block(py: Python<'_>, block: OwnedBlock) -> PyResult<Bound<'_, PyDict>> {
    let (item_bytes, item_offsets) = block.items.into_columns();
    let columns: PyResult<Bound<'_, PyDict>> = dict_of_arrays!(
        py,
        block,
        tokens,
        logprobs,
        flags,
        call,
        offsets,
        call_policy,
        call_version,
        call_routing,
        row_member,
        row_trajectory,
        row_policy,
        row_role,
        row_depth,
        row_start,
        row_reward,
        row_version,
        side_row,
        side_at,
        side_length,
        side_name,
        side_item
    );
    let columns = columns?;
    columns.set_item("item_offsets", give(py, item_offsets))?;
    columns.set_item("item_bytes", give(py, item_bytes))?;
    Ok(columns)
}

/// The columns of a row block, read from the attributes of the same names.
pub(crate) struct BlockColumns<'py> {
    tokens: Column<'py, u32>,
    logprobs: Column<'py, f32>,
    flags: Column<'py, u8>,
    call: Column<'py, u32>,
    offsets: Column<'py, i64>,
    call_policy: Column<'py, u16>,
    call_version: Column<'py, i64>,
    call_routing: Column<'py, i64>,
    row_member: Column<'py, u32>,
    row_trajectory: Column<'py, u32>,
    row_policy: Column<'py, u16>,
    row_role: Column<'py, u16>,
    row_depth: Column<'py, u16>,
    row_start: Column<'py, u8>,
    row_reward: Column<'py, f64>,
    row_version: Column<'py, i64>,
    side_row: Column<'py, u32>,
    side_at: Column<'py, u32>,
    side_length: Column<'py, u32>,
    side_name: Column<'py, u16>,
    side_item: Column<'py, u32>,
    item_offsets: Column<'py, i64>,
    item_bytes: Column<'py, u8>,
}

impl<'py> BlockColumns<'py> {
    pub(crate) fn read(block: &Bound<'py, PyAny>) -> PyResult<Self> {
        fn column<'py, T: Element + 'static>(
            block: &Bound<'py, PyAny>,
            name: &'static str,
        ) -> PyResult<Column<'py, T>> {
            Column::read(name, &block.getattr(name)?)
        }
        Ok(Self {
            tokens: column(block, "tokens")?,
            logprobs: column(block, "logprobs")?,
            flags: column(block, "flags")?,
            call: column(block, "call")?,
            offsets: column(block, "offsets")?,
            call_policy: column(block, "call_policy")?,
            call_version: column(block, "call_version")?,
            call_routing: column(block, "call_routing")?,
            row_member: column(block, "row_member")?,
            row_trajectory: column(block, "row_trajectory")?,
            row_policy: column(block, "row_policy")?,
            row_role: column(block, "row_role")?,
            row_depth: column(block, "row_depth")?,
            row_start: column(block, "row_start")?,
            row_reward: column(block, "row_reward")?,
            row_version: column(block, "row_version")?,
            side_row: column(block, "side_row")?,
            side_at: column(block, "side_at")?,
            side_length: column(block, "side_length")?,
            side_name: column(block, "side_name")?,
            side_item: column(block, "side_item")?,
            item_offsets: column(block, "item_offsets")?,
            item_bytes: column(block, "item_bytes")?,
        })
    }

    pub(crate) fn view(&self) -> PyResult<Block<'_>> {
        Ok(Block {
            tokens: self.tokens.slice()?,
            logprobs: self.logprobs.slice()?,
            flags: self.flags.slice()?,
            call: self.call.slice()?,
            offsets: self.offsets.slice()?,
            call_policy: self.call_policy.slice()?,
            call_version: self.call_version.slice()?,
            call_routing: self.call_routing.slice()?,
            row_member: self.row_member.slice()?,
            row_trajectory: self.row_trajectory.slice()?,
            row_policy: self.row_policy.slice()?,
            row_role: self.row_role.slice()?,
            row_depth: self.row_depth.slice()?,
            row_start: self.row_start.slice()?,
            row_reward: self.row_reward.slice()?,
            row_version: self.row_version.slice()?,
            side: Side {
                row: self.side_row.slice()?,
                at: self.side_at.slice()?,
                length: self.side_length.slice()?,
                name: self.side_name.slice()?,
                item: self.side_item.slice()?,
                item_offsets: self.item_offsets.slice()?,
                item_bytes: self.item_bytes.slice()?,
            },
        })
    }
}
