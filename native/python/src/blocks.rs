//! Whole row blocks: their rules, their digest, their stored form, choosing and joining rows.

use platoon_rows::{self as core, Block, NameCounts, NameMaps, Names, PartColumns, SpanColumns};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{give, give_block, slices, Array, BlockColumns, Column, Input};
use crate::detach::on_rows;
use crate::errors::ShapeError;

/// Tokens, logprobs, flags and calls.
type TokenArrays<'py> = (Array<'py, u32>, Array<'py, f32>, Array<'py, u8>, Array<'py, u32>);
type SpanArrays<'py> = (Array<'py, i64>, Array<'py, i64>, Array<'py, u32>, Array<'py, u8>);
type PartArrays<'py> = (Array<'py, u16>, Array<'py, u8>, Array<'py, u16>, Array<'py, u16>);
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
    on_rows(py, size_of_val(view.tokens), || view.check(names))
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
    let digest = on_rows(py, size_of_val(view.tokens), || core::block_digest(&view, names))?;
    Ok(platoon_digest::hex(&digest))
}

/// The spans of a checked block: start, end, call and flags of each.
#[pyfunction]
pub(crate) fn stored_spans<'py>(py: Python<'py>, block: Input<'_, 'py>) -> PyResult<SpanArrays<'py>> {
    let columns = BlockColumns::read(block)?;
    let view = columns.view()?;
    let spans = on_rows(py, size_of_val(view.tokens), || core::stored_spans(&view))?;
    let (start, end) = (give(py, spans.start), give(py, spans.end));
    Ok((start, end, give(py, spans.call), give(py, spans.flags)))
}

/// The stored form of some tokens of a block: low halves and planes of the tokens, low and high halves of the logprobs.
#[pyfunction]
pub(crate) fn stored_part<'py>(
    py: Python<'py>,
    tokens: Input<'_, 'py>,
    logprobs: Input<'_, 'py>,
    span_start: Input<'_, 'py>,
    span_end: Input<'_, 'py>,
    first: usize,
    end: usize,
) -> PyResult<PartArrays<'py>> {
    slices!(tokens, logprobs, span_start, span_end);
    let part = on_rows(py, end.saturating_sub(first) * size_of::<u32>(), || {
        core::stored_part(tokens, logprobs, span_start, span_end, first..end)
    })?;
    let (low, planes) = (give(py, part.token_low), give(py, part.token_planes));
    Ok((low, planes, give(py, part.logprob_low), give(py, part.logprob_high)))
}

/// The token columns that were stored: tokens, logprobs, flags, call. `parts` are those that `stored_part` gave.
#[pyfunction]
pub(crate) fn from_stored<'py>(
    py: Python<'py>,
    parts: Vec<PartObjects<'py>>,
    span_start: Input<'_, 'py>,
    span_end: Input<'_, 'py>,
    span_call: Input<'_, 'py>,
    span_flags: Input<'_, 'py>,
) -> PyResult<TokenArrays<'py>> {
    slices!(span_start, span_end, span_call, span_flags);
    let spans = SpanColumns { start: span_start, end: span_end, call: span_call, flags: span_flags };
    let lent = parts.iter().map(LentPart::read).collect::<PyResult<Vec<_>>>()?;
    let parts = lent.iter().map(LentPart::view).collect::<PyResult<Vec<PartColumns<'_>>>>()?;
    let read = parts.iter().map(|part| size_of_val(part.token_low)).sum();
    let columns = on_rows(py, read, || core::from_stored(&parts, spans))?;
    let (tokens, logprobs) = (give(py, columns.tokens), give(py, columns.logprobs));
    Ok((tokens, logprobs, give(py, columns.flags), give(py, columns.call)))
}

/// What `stored_part` gave, in its order.
type PartObjects<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// A stored part, its arrays still Python's.
struct LentPart<'py> {
    token_low: Column<'py, u16>,
    token_planes: Column<'py, u8>,
    logprob_low: Column<'py, u16>,
    logprob_high: Column<'py, u16>,
}

impl<'py> LentPart<'py> {
    fn read(part: &PartObjects<'py>) -> PyResult<Self> {
        Ok(Self {
            token_low: Column::read("token_low", &part.0)?,
            token_planes: Column::read("token_planes", &part.1)?,
            logprob_low: Column::read("logprob_low", &part.2)?,
            logprob_high: Column::read("logprob_high", &part.3)?,
        })
    }

    fn view(&self) -> PyResult<PartColumns<'_>> {
        Ok(PartColumns {
            token_low: self.token_low.slice()?,
            token_planes: self.token_planes.slice()?,
            logprob_low: self.logprob_low.slice()?,
            logprob_high: self.logprob_high.slice()?,
        })
    }
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
    let chosen = on_rows(py, size_of_val(view.tokens), || core::select(&view, rows))?;
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
    let joined = on_rows(py, read, || core::concat(&parts))?;
    give_block(py, joined)
}
