//! Kernels on the columns of row blocks.

use platoon_rows::{self as core, Advantages, BaselineRule, ClipBounds, RowTotals, TrainedTokens};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{detach_above, give, Array, Column, Input};
use crate::errors::rows_error;

/// Stale rows, groups with a stale row, groups of stale rows alone, and stale rows by policy.
type StaleArrays<'py> = (Array<'py, bool>, Array<'py, bool>, Array<'py, bool>, Array<'py, u64>);

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
    let (version, policy) = (Column::read("row_version", row_version)?, Column::read("row_policy", row_policy)?);
    let group = Column::read("group_of_row", group_of_row)?;
    let (version, policy, group) = (version.slice()?, policy.slice()?, group.slice()?);
    let stale = detach_above(py, size_of_val(version), || {
        core::stale_rows(version, policy, group, group_count, &current, &bounds)
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
    let (keys, rewards) = (Column::read("keys", keys)?, Column::read("rewards", rewards)?);
    let is_peer = Column::read("is_peer", is_peer)?;
    let (keys, rewards, is_peer) = (keys.slice()?, rewards.slice()?, is_peer.slice()?);
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
    let (flags, offsets) = (Column::read("flags", flags)?, Column::read("offsets", offsets)?);
    let (flags, offsets) = (flags.slice()?, offsets.slice()?);
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
    let (advantages, is_trained) = (Column::read("advantages", advantages)?, Column::read("is_trained", is_trained)?);
    let offsets = Column::read("offsets", offsets)?;
    let (advantages, is_trained, offsets) = (advantages.slice()?, is_trained.slice()?, offsets.slice()?);
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
    let (advantages, offsets) = (Column::read("advantages", advantages)?, Column::read("offsets", offsets)?);
    let weights = Column::read("weights", weights)?;
    let (advantages, offsets, weights) = (advantages.slice()?, offsets.slice()?, weights.slice()?);
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
    let (depth, start) = (Column::read("row_depth", row_depth)?, Column::read("row_start", row_start)?);
    let tokens = Column::read("trained_tokens", trained_tokens)?;
    let weights = core::level_weights(depth.slice()?, start.slice()?, tokens.slice()?).map_err(rows_error)?;
    Ok(give(py, weights))
}

/// Row weights that discount by depth.
#[pyfunction]
pub(crate) fn discount_weights<'py>(
    py: Python<'py>,
    row_depth: Input<'_, 'py>,
    trained_tokens: Input<'_, 'py>,
    gamma: f64,
) -> PyResult<Array<'py, f64>> {
    let (depth, tokens) = (Column::read("row_depth", row_depth)?, Column::read("trained_tokens", trained_tokens)?);
    let weights = core::discount_weights(depth.slice()?, tokens.slice()?, gamma).map_err(rows_error)?;
    Ok(give(py, weights))
}

/// The start marks of the rows that survive.
#[pyfunction]
pub(crate) fn surviving_starts<'py>(
    py: Python<'py>,
    row_start: Input<'_, 'py>,
    has_tokens: Input<'_, 'py>,
    is_kept: Input<'_, 'py>,
) -> PyResult<Array<'py, u8>> {
    let (start, has_tokens) = (Column::read("row_start", row_start)?, Column::read("has_tokens", has_tokens)?);
    let is_kept = Column::read("is_kept", is_kept)?;
    let starts = core::surviving_starts(start.slice()?, has_tokens.slice()?, is_kept.slice()?).map_err(rows_error)?;
    Ok(give(py, starts))
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
    let (tokens, logprobs) = (Column::read("tokens", tokens)?, Column::read("logprobs", logprobs)?);
    let (advantages, is_trained) = (Column::read("advantages", advantages)?, Column::read("is_trained", is_trained)?);
    let (offsets, kept) = (Column::read("offsets", offsets)?, Column::read("kept", kept)?);
    let columns = TrainedTokens {
        tokens: tokens.slice()?,
        logprobs: logprobs.slice()?,
        advantages: advantages.slice()?,
        is_trained: is_trained.slice()?,
    };
    let (offsets, kept) = (offsets.slice()?, kept.slice()?);
    let out = detach_above(py, size_of_val(columns.tokens), || core::assemble(columns, offsets, kept, scale))
        .map_err(rows_error)?;
    let result = PyDict::new(py);
    result.set_item("input_tokens_S", give(py, out.input_tokens_S))?;
    result.set_item("target_tokens_S", give(py, out.target_tokens_S))?;
    result.set_item("logprobs_S", give(py, out.logprobs_S))?;
    result.set_item("advantages_S", give(py, out.advantages_S))?;
    result.set_item("is_trained_S", give(py, out.is_trained_S))?;
    result.set_item("offsets", give(py, out.offsets))?;
    Ok(result)
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
    let (sampled, training) = (Column::read("sampled", sampled)?, Column::read("training", training)?);
    let is_trained = Column::read("is_trained", is_trained)?;
    let (sampled, training, is_trained) = (sampled.slice()?, training.slice()?, is_trained.slice()?);
    let clip = clip.map(|(low, high)| ClipBounds { low, high });
    let metrics =
        detach_above(py, size_of_val(sampled), || core::training_metrics(sampled, training, is_trained, clip))
            .map_err(rows_error)?;
    let result = PyDict::new(py);
    result.set_item("tokens", metrics.tokens)?;
    result.set_item("kl_sample_train_v1", metrics.kl_sample_train_v1)?;
    result.set_item("kl_sample_train_v2", metrics.kl_sample_train_v2)?;
    result.set_item("entropy", metrics.entropy)?;
    result.set_item("importance_weight_mean", metrics.importance_weight_mean)?;
    result.set_item("importance_weight_std", metrics.importance_weight_std)?;
    result.set_item("importance_weight_min", metrics.importance_weight_min)?;
    result.set_item("importance_weight_max", metrics.importance_weight_max)?;
    result.set_item("clip_frac_low", metrics.clip_frac_low)?;
    result.set_item("clip_frac_high", metrics.clip_frac_high)?;
    result.set_item("clip_frac_total", metrics.clip_frac_total)?;
    Ok(result)
}
