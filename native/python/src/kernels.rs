//! Kernels on the columns of row blocks.

use numpy::PyArray1;
use platoon_rows::{
    self as core, Advantages, BaselineRule, ClipBounds, KeyColumn, ReverseKlCoefficients, RowTotals, TrainedTokens,
    TOKENS_A_THREAD,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{dict_of, dict_of_arrays, give, slices, Array, Column, Input};
use crate::detach::on_rows;
use crate::errors::rows_error;
use crate::threads::sharing;

/// Rows too old for their policy's bound, and rows of whose policy and group one is; a bound of None never makes a row so.
#[pyfunction]
pub(crate) fn stale_rows<'py>(
    py: Python<'py>,
    row_version: Input<'_, 'py>,
    row_policy: Input<'_, 'py>,
    group_of_row: Input<'_, 'py>,
    group_count: usize,
    current: Vec<i64>,
    bounds: Vec<Option<i64>>,
) -> PyResult<(Array<'py, bool>, Array<'py, bool>)> {
    slices!(row_version, row_policy, group_of_row);
    let stale = on_rows(py, size_of_val(row_version), || {
        core::stale_rows(row_version, row_policy, group_of_row, group_count, &current, &bounds)
    })?;
    Ok((give(py, stale.is_stale_R), give(py, stale.is_group_stale_R)))
}

/// The oldest version among each row's calls, -1 where none has one.
#[pyfunction]
pub(crate) fn oldest_versions<'py>(
    py: Python<'py>,
    call_version: Input<'_, 'py>,
    call_offsets: Input<'_, 'py>,
) -> PyResult<Array<'py, i64>> {
    slices!(call_version, call_offsets);
    let oldest = on_rows(py, size_of_val(call_version), || core::oldest_versions(call_version, call_offsets))?;
    Ok(give(py, oldest))
}

/// Action tokens of each row, and the routing handle of its last call.
#[pyfunction]
#[pyo3(signature = (flags, call, offsets, call_routing, threads=None, tokens_a_thread=TOKENS_A_THREAD))]
pub(crate) fn row_samples<'py>(
    py: Python<'py>,
    flags: Input<'_, 'py>,
    call: Input<'_, 'py>,
    offsets: Input<'_, 'py>,
    call_routing: Input<'_, 'py>,
    threads: Option<usize>,
    tokens_a_thread: usize,
) -> PyResult<(Array<'py, i64>, Array<'py, i64>)> {
    let threads = sharing(threads, tokens_a_thread);
    slices!(flags, call, offsets, call_routing);
    let samples = on_rows(py, flags.len(), || core::row_samples(flags, call, offsets, call_routing, threads))?;
    Ok((give(py, samples.action_count_R), give(py, samples.routing_R)))
}

/// Numbers of the keys that columns of int64, uint32 or uint16 make, by order of first appearance.
#[pyfunction]
pub(crate) fn dense_keys<'py>(py: Python<'py>, columns: Vec<Bound<'py, PyAny>>) -> PyResult<Array<'py, i64>> {
    let columns = read_keys(&columns)?;
    let keys = columns.iter().map(LentKey::view).collect::<PyResult<Vec<_>>>()?;
    let entries = keys.first().map_or(0, KeyColumn::len);
    let numbers = on_rows(py, entries * size_of::<i64>(), || core::dense_keys(&keys, entries))?;
    Ok(give(py, numbers))
}

/// The baseline of each agent among the peers that share its key.
#[pyfunction]
pub(crate) fn baselines<'py>(
    py: Python<'py>,
    keys: Vec<Bound<'py, PyAny>>,
    rewards: Input<'_, 'py>,
    is_peer: Input<'_, 'py>,
    leave_one_out: bool,
) -> PyResult<Array<'py, f64>> {
    let columns = read_keys(&keys)?;
    let keys = columns.iter().map(LentKey::view).collect::<PyResult<Vec<_>>>()?;
    slices!(rewards, is_peer);
    let rule = if leave_one_out { BaselineRule::LeaveOneOut } else { BaselineRule::Mean };
    let values = on_rows(py, size_of_val(rewards), || core::baselines(&keys, rewards, is_peer, rule))?;
    Ok(give(py, values))
}

/// A key column as Python lent it.
enum LentKey<'py> {
    I64(Column<'py, i64>),
    U32(Column<'py, u32>),
    U16(Column<'py, u16>),
}

impl LentKey<'_> {
    fn view(&self) -> PyResult<KeyColumn<'_>> {
        Ok(match self {
            Self::I64(column) => KeyColumn::I64(column.slice()?),
            Self::U32(column) => KeyColumn::U32(column.slice()?),
            Self::U16(column) => KeyColumn::U16(column.slice()?),
        })
    }
}

fn read_keys<'py>(columns: &[Bound<'py, PyAny>]) -> PyResult<Vec<LentKey<'py>>> {
    let read = |column: &Bound<'py, PyAny>| {
        if column.cast::<PyArray1<u32>>().is_ok() {
            return Ok(LentKey::U32(Column::read("key", column)?));
        }
        if column.cast::<PyArray1<u16>>().is_ok() {
            return Ok(LentKey::U16(Column::read("key", column)?));
        }
        Ok(LentKey::I64(Column::read("key", column)?))
    };
    columns.iter().map(read).collect()
}

/// Advantages (float64 a row, or float32 a token) on action tokens.
#[pyfunction]
#[pyo3(signature = (flags, offsets, advantages, per_token, suppress_errors, threads=None, tokens_a_thread=TOKENS_A_THREAD))]
#[allow(clippy::too_many_arguments, reason = "one argument a column")]
pub(crate) fn apply_advantages<'py>(
    py: Python<'py>,
    flags: Input<'_, 'py>,
    offsets: Input<'_, 'py>,
    advantages: Input<'_, 'py>,
    per_token: bool,
    suppress_errors: bool,
    threads: Option<usize>,
    tokens_a_thread: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let threads = sharing(threads, tokens_a_thread);
    slices!(flags, offsets);
    let (tokens, rows);
    let advantages = if per_token {
        tokens = Column::read("advantages", advantages)?;
        Advantages::PerToken(tokens.slice()?)
    } else {
        rows = Column::read("advantages", advantages)?;
        Advantages::PerRow(rows.slice()?)
    };
    let applied =
        on_rows(py, flags.len(), || core::apply_advantages(flags, offsets, advantages, suppress_errors, threads))?;
    let result = PyDict::new(py);
    result.set_item("advantages_T", give(py, applied.advantages_T))?;
    result.set_item("is_trained_T", give(py, applied.is_trained_T))?;
    set_totals(&result, applied.totals)?;
    result.set_item("detected_action_tokens", applied.counters.detected_action_tokens)?;
    result.set_item("suppressed_positive_action_tokens", applied.counters.suppressed_positive_action_tokens)?;
    result.set_item("retained_nonpositive_action_tokens", applied.counters.retained_nonpositive_action_tokens)?;
    result.set_item("emptied_rows", applied.counters.emptied_rows)?;
    Ok(result)
}

/// Trained tokens a row, and the rows without an advantage.
#[pyfunction]
pub(crate) fn row_totals<'py>(
    py: Python<'py>,
    advantages: Input<'_, 'py>,
    is_trained: Input<'_, 'py>,
    offsets: Input<'_, 'py>,
) -> PyResult<(Array<'py, i64>, Array<'py, bool>)> {
    slices!(advantages, is_trained, offsets);
    let totals = on_rows(py, size_of_val(advantages), || core::row_totals(advantages, is_trained, offsets))?;
    Ok((give(py, totals.trained_tokens_R), give(py, totals.is_zero_R)))
}

fn set_totals(result: &Bound<'_, PyDict>, totals: RowTotals) -> PyResult<()> {
    let py = result.py();
    result.set_item("trained_tokens_R", give(py, totals.trained_tokens_R))?;
    result.set_item("is_zero_R", give(py, totals.is_zero_R))
}

/// Advantages of on-policy distillation on action tokens.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one argument a column")]
pub(crate) fn reverse_kl<'py>(
    py: Python<'py>,
    flags: Input<'_, 'py>,
    offsets: Input<'_, 'py>,
    student: Input<'_, 'py>,
    teacher: Input<'_, 'py>,
    values: Input<'_, 'py>,
    kl_coefficient: f64,
    reward_coefficient: f64,
) -> PyResult<(Array<'py, f32>, u64, f64)> {
    slices!(flags, offsets, student, teacher, values);
    let coefficients = ReverseKlCoefficients { kl: kl_coefficient, reward: reward_coefficient };
    let out =
        on_rows(py, size_of_val(student), || core::reverse_kl(flags, offsets, student, teacher, values, coefficients))?;
    Ok((give(py, out.advantages_T), out.action_tokens, out.mean))
}

/// Advantages times their row's weight.
#[pyfunction]
#[pyo3(signature = (advantages, offsets, weights, threads=None, tokens_a_thread=TOKENS_A_THREAD))]
pub(crate) fn scale_rows<'py>(
    py: Python<'py>,
    advantages: Input<'_, 'py>,
    offsets: Input<'_, 'py>,
    weights: Input<'_, 'py>,
    threads: Option<usize>,
    tokens_a_thread: usize,
) -> PyResult<Array<'py, f32>> {
    let threads = sharing(threads, tokens_a_thread);
    slices!(advantages, offsets, weights);
    let scaled = on_rows(py, size_of_val(advantages), || core::scale_rows(advantages, offsets, weights, threads))?;
    Ok(give(py, scaled))
}

/// The rows to send, whether any is, and the tokens that all of them stand for.
#[pyfunction]
pub(crate) fn filter_zero<'py>(
    py: Python<'py>,
    trained_tokens: Input<'_, 'py>,
    is_zero: Input<'_, 'py>,
    is_enabled: bool,
    is_zero_preserving: bool,
) -> PyResult<(Array<'py, i64>, bool, i64)> {
    slices!(trained_tokens, is_zero);
    let kept = core::filter_zero(trained_tokens, is_zero, is_enabled, is_zero_preserving).map_err(rows_error)?;
    Ok((give(py, kept.rows_K), kept.is_sent, kept.represented_tokens))
}

/// Row weights that count each depth as one over its trajectories.
#[pyfunction]
pub(crate) fn level_weights<'py>(
    py: Python<'py>,
    row_depth: Input<'_, 'py>,
    row_start: Input<'_, 'py>,
    trained_tokens: Input<'_, 'py>,
) -> PyResult<Array<'py, f64>> {
    slices!(row_depth, row_start, trained_tokens);
    Ok(give(py, core::level_weights(row_depth, row_start, trained_tokens).map_err(rows_error)?))
}

/// Row weights that discount by depth.
#[pyfunction]
pub(crate) fn discount_weights<'py>(
    py: Python<'py>,
    row_depth: Input<'_, 'py>,
    trained_tokens: Input<'_, 'py>,
    gamma: f64,
) -> PyResult<Array<'py, f64>> {
    slices!(row_depth, trained_tokens);
    Ok(give(py, core::discount_weights(row_depth, trained_tokens, gamma).map_err(rows_error)?))
}

/// The start marks of the rows that survive.
#[pyfunction]
pub(crate) fn surviving_starts<'py>(
    py: Python<'py>,
    row_start: Input<'_, 'py>,
    has_tokens: Input<'_, 'py>,
    is_kept: Input<'_, 'py>,
) -> PyResult<Array<'py, u8>> {
    slices!(row_start, has_tokens, is_kept);
    Ok(give(py, core::surviving_starts(row_start, has_tokens, is_kept).map_err(rows_error)?))
}

/// The service's buffers for the kept rows.
#[pyfunction]
#[pyo3(signature = (tokens, logprobs, advantages, is_trained, offsets, kept, scale, threads=None, tokens_a_thread=TOKENS_A_THREAD))]
#[allow(clippy::too_many_arguments, reason = "one argument a column")]
pub(crate) fn assemble<'py>(
    py: Python<'py>,
    tokens: Input<'_, 'py>,
    logprobs: Input<'_, 'py>,
    advantages: Input<'_, 'py>,
    is_trained: Input<'_, 'py>,
    offsets: Input<'_, 'py>,
    kept: Input<'_, 'py>,
    scale: f64,
    threads: Option<usize>,
    tokens_a_thread: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let threads = sharing(threads, tokens_a_thread);
    slices!(tokens, logprobs, advantages, is_trained, offsets, kept);
    let columns = TrainedTokens { tokens, logprobs, advantages, is_trained };
    let out = on_rows(py, size_of_val(columns.tokens), || core::assemble(columns, offsets, kept, scale, threads))?;
    dict_of_arrays!(py, out, input_tokens_S, target_tokens_S, logprobs_S, advantages_S, is_trained_S, offsets)
}

/// Training metrics over the trained targets.
#[pyfunction]
pub(crate) fn training_metrics<'py>(
    py: Python<'py>,
    sampled: Input<'_, 'py>,
    training: Input<'_, 'py>,
    is_trained: Input<'_, 'py>,
    clip: Option<(f64, f64)>,
) -> PyResult<Bound<'py, PyDict>> {
    slices!(sampled, training, is_trained);
    let clip = clip.map(|(low, high)| ClipBounds { low, high });
    let metrics = on_rows(py, size_of_val(sampled), || core::training_metrics(sampled, training, is_trained, clip))?;
    dict_of!(
        py,
        metrics,
        tokens,
        kl_sample_train_v1,
        kl_sample_train_v2,
        entropy,
        importance_weight_mean,
        importance_weight_std,
        importance_weight_min,
        importance_weight_max,
        clip_frac_low,
        clip_frac_high,
        clip_frac_total
    )
}
