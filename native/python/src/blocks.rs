//! Whole row blocks: their rules, their digest, their stored form, choosing and joining rows.

use platoon_rows::{self as core, Block, NameCounts, NameMaps, Names, StoredColumns};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{dict_of_arrays, give, give_block, slices, Array, BlockColumns, Input};
use crate::detach::detach_above;
use crate::errors::{rows_error, ShapeError};

/// Tokens, logprobs, flags and calls.
type TokenArrays<'py> = (Array<'py, u32>, Array<'py, f32>, Array<'py, u8>, Array<'py, u32>);
/// One map a block, from an index into its names to one into those of the joined block.
type Maps = Vec<Vec<u16>>;

/// Checks every rule of a block.
#[pyfunction]
pub(crate) fn check_block(
    py: Python<'_>,
    block: Input,
    policy_count: usize,
    role_count: usize,
    side_name_count: usize,
) -> PyResult<()> {
    let columns = BlockColumns::read(block)?;
    let view = columns.view()?;
    let names = NameCounts { policies: policy_count, roles: role_count, side: side_name_count };
    detach_above(py, size_of_val(view.tokens), || view.check(names)).map_err(rows_error)
}

/// SHA-256 of a checked block, lower-case hex.
#[pyfunction]
pub(crate) fn block_digest(
    py: Python<'_>,
    block: Input,
    policies: Vec<String>,
    roles: Vec<String>,
    side_names: Vec<String>,
) -> PyResult<String> {
    fn texts(names: &[String]) -> Vec<&str> {
        names.iter().map(String::as_str).collect()
    }
    let columns = BlockColumns::read(block)?;
    let view = columns.view()?;
    let (policies, roles, side) = (texts(&policies), texts(&roles), texts(&side_names));
    let names = Names { policies: &policies, roles: &roles, side: &side };
    let digest = detach_above(py, size_of_val(view.tokens), || core::block_digest(&view, names)).map_err(rows_error)?;
    Ok(platoon_digest::hex(&digest))
}

/// The token columns of a checked block as they are stored.
#[pyfunction]
pub(crate) fn to_stored<'py>(py: Python<'py>, block: Input<'_, 'py>) -> PyResult<Bound<'py, PyDict>> {
    let columns = BlockColumns::read(block)?;
    let view = columns.view()?;
    let stored = detach_above(py, size_of_val(view.tokens), || core::to_stored(&view)).map_err(rows_error)?;
    dict_of_arrays!(
        py,
        stored,
        token_low,
        token_planes,
        logprob_low,
        logprob_high,
        span_start,
        span_end,
        span_call,
        span_flags
    )
}

/// The token columns that were stored: tokens, logprobs, flags, call.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one argument a column")]
pub(crate) fn from_stored<'py>(
    py: Python<'py>,
    token_low: Input<'_, 'py>,
    token_planes: Input<'_, 'py>,
    logprob_low: Input<'_, 'py>,
    logprob_high: Input<'_, 'py>,
    span_start: Input<'_, 'py>,
    span_end: Input<'_, 'py>,
    span_call: Input<'_, 'py>,
    span_flags: Input<'_, 'py>,
) -> PyResult<TokenArrays<'py>> {
    slices!(token_low, token_planes, logprob_low, logprob_high, span_start, span_end, span_call, span_flags);
    let stored = StoredColumns {
        token_low,
        token_planes,
        logprob_low,
        logprob_high,
        span_start,
        span_end,
        span_call,
        span_flags,
    };
    let columns = detach_above(py, size_of_val(stored.token_low), || core::from_stored(stored)).map_err(rows_error)?;
    let (tokens, logprobs) = (give(py, columns.tokens), give(py, columns.logprobs));
    Ok((tokens, logprobs, give(py, columns.flags), give(py, columns.call)))
}

/// The columns of some rows of a checked block: indices (int64) in rising order.
#[pyfunction]
pub(crate) fn select_rows<'py>(
    py: Python<'py>,
    block: Input<'_, 'py>,
    rows: Input<'_, 'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = BlockColumns::read(block)?;
    let view = columns.view()?;
    slices!(rows);
    let chosen = detach_above(py, size_of_val(view.tokens), || core::select(&view, rows)).map_err(rows_error)?;
    give_block(py, chosen)
}

/// The columns of all rows of checked blocks, in order.
#[pyfunction]
pub(crate) fn concat_blocks<'py>(
    py: Python<'py>,
    blocks: Vec<Bound<'py, PyAny>>,
    policy_maps: Maps,
    role_maps: Maps,
    side_maps: Maps,
) -> PyResult<Bound<'py, PyDict>> {
    if [policy_maps.len(), role_maps.len(), side_maps.len()] != [blocks.len(); 3] {
        return Err(ShapeError::new_err("concat_blocks: each block has one map of each kind"));
    }
    let columns = blocks.iter().map(BlockColumns::read).collect::<PyResult<Vec<_>>>()?;
    let views = columns.iter().map(BlockColumns::view).collect::<PyResult<Vec<Block<'_>>>>()?;
    let maps = policy_maps.iter().zip(&role_maps).zip(&side_maps);
    let parts: Vec<(Block<'_>, NameMaps<'_>)> =
        views.into_iter().zip(maps.map(|((policies, roles), side)| NameMaps { policies, roles, side })).collect();
    let read = parts.iter().map(|(view, _)| size_of_val(view.tokens)).sum();
    let joined = detach_above(py, read, || core::concat(&parts)).map_err(rows_error)?;
    give_block(py, joined)
}
