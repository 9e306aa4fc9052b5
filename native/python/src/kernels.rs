//! Kernels on the columns of row blocks.

use numpy::PyArray1;
use platoon_rows::{self as core, Advantages, BaselineRule, ClipBounds, RowTotals, TrainedTokens};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{detach_above, dict_of, dict_of_arrays, give, slices, BlockColumns, Column};
use crate::errors::rows_error;

type Array<'py, T> = Bound<'py, PyArray1<T>>;
/// Stale rows, groups with a stale row, groups of stale rows alone, and stale rows by policy.
type StaleArrays<'py> = (Array<'py, bool>, Array<'py, bool>, Array<'py, bool>, Array<'py, u64>);
type Input<'a, 'py> = &'a Bound<'py, PyAny>;

/// Checks every rule of a block.
#[pyfunction]
pub(crate) fn check_block(py: Python<'_>, block: Input, policy_count: usize, role_count: usize) -> PyResult<()> {
    let columns = BlockColumns::read(block)?;
    let view = columns.view()?;
    detach_above(py, size_of_val(view.tokens), || view.check(policy_count, role_count)).map_err(rows_error)
}

/// SHA-256 of a checked block, lower-case hex.
#[pyfunction]
pub(crate) fn block_digest(
    py: Python<'_>,
    block: Input,
    policies: Vec<String>,
    roles: Vec<String>,
) -> PyResult<String> {
    let columns = BlockColumns::read(block)?;
    let view = columns.view()?;
    let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
    let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
    let digest = detach_above(py, size_of_val(view.tokens), || core::block_digest(&view, &policies, &roles));
    Ok(platoon_digest::hex(&digest))
}

/// Rows too old for their policy's bound; a bound of None never is.
#[pyfunction]
pub(crate) fn stale_rows<'py>(
    py: Python<'py>,
    row_version: Input<'_, 'py>,
    row_policy: Input<'_, 'py>,
    group_of_row: Input<'_, 'py>,
    group_count: usize,
    current: Vec<i64>,
    bounds: Vec<Option<i64>>,
) -> PyResult<StaleArrays<'py>> {
    slices!(row_version, row_policy, group_of_row);
    let stale = detach_above(py, size_of_val(row_version), || {
        core::stale_rows(row_version, row_policy, group_of_row, group_count, &current, &bounds)
    })
    .map_err(rows_error)?;
    let groups = (give(py, stale.has_stale_G), give(py, stale.is_stale_G));
    Ok((give(py, stale.is_stale_R), groups.0, groups.1, give(py, stale.count_P)))
}

/// The baseline of each agent among the peers that share its key.
#[pyfunction]
pub(crate) fn baselines<'py>(
    py: Python<'py>,
    keys: Input<'_, 'py>,
    rewards: Input<'_, 'py>,
    is_peer: Input<'_, 'py>,
    leave_one_out: bool,
) -> PyResult<Array<'py, f64>> {
    slices!(keys, rewards, is_peer);
    let rule = if leave_one_out { BaselineRule::LeaveOneOut } else { BaselineRule::Mean };
    let values = detach_above(py, size_of_val(keys), || core::baselines(keys, rewards, is_peer, rule));
    Ok(give(py, values.map_err(rows_error)?))
}

/// Advantages (float64 a row, or float32 a token) on action tokens.
#[pyfunction]
pub(crate) fn apply_advantages<'py>(
    py: Python<'py>,
    flags: Input<'_, 'py>,
    offsets: Input<'_, 'py>,
    advantages: Input<'_, 'py>,
    per_token: bool,
    suppress_errors: bool,
) -> PyResult<Bound<'py, PyDict>> {
    slices!(flags, offsets);
    let (tokens, rows);
    let advantages = if per_token {
        tokens = Column::read("advantages", advantages)?;
        Advantages::PerToken(tokens.slice()?)
    } else {
        rows = Column::read("advantages", advantages)?;
        Advantages::PerRow(rows.slice()?)
    };
    let applied = detach_above(py, flags.len(), || core::apply_advantages(flags, offsets, advantages, suppress_errors))
        .map_err(rows_error)?;
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
    let totals = detach_above(py, size_of_val(advantages), || core::row_totals(advantages, is_trained, offsets))
        .map_err(rows_error)?;
    Ok((give(py, totals.trained_tokens_R), give(py, totals.is_zero_R)))
}

fn set_totals(result: &Bound<'_, PyDict>, totals: RowTotals) -> PyResult<()> {
    let py = result.py();
    result.set_item("trained_tokens_R", give(py, totals.trained_tokens_R))?;
    result.set_item("is_zero_R", give(py, totals.is_zero_R))
}

/// Advantages times their row's weight.
#[pyfunction]
pub(crate) fn scale_rows<'py>(
    py: Python<'py>,
    advantages: Input<'_, 'py>,
    offsets: Input<'_, 'py>,
    weights: Input<'_, 'py>,
) -> PyResult<Array<'py, f32>> {
    slices!(advantages, offsets, weights);
    let scaled = detach_above(py, size_of_val(advantages), || core::scale_rows(advantages, offsets, weights));
    Ok(give(py, scaled.map_err(rows_error)?))
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
) -> PyResult<Bound<'py, PyDict>> {
    slices!(tokens, logprobs, advantages, is_trained, offsets, kept);
    let columns = TrainedTokens { tokens, logprobs, advantages, is_trained };
    let out = detach_above(py, size_of_val(columns.tokens), || core::assemble(columns, offsets, kept, scale))
        .map_err(rows_error)?;
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
    let metrics =
        detach_above(py, size_of_val(sampled), || core::training_metrics(sampled, training, is_trained, clip))
            .map_err(rows_error)?;
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
