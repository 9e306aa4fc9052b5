//! Statistics of tasks and Thompson draws.

use platoon_rows::{self as core, Attempts, Evidence};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{dict_of_arrays, slices, Input};
use crate::detach::on_rows;
use crate::errors::rows_error;

/// Evidence with attempts added.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one argument a column")]
pub(crate) fn add_attempts<'py>(
    py: Python<'py>,
    passes: Input<'_, 'py>,
    failures: Input<'_, 'py>,
    version: Input<'_, 'py>,
    new_task: Input<'_, 'py>,
    new_version: Input<'_, 'py>,
    new_passes: Input<'_, 'py>,
    new_failures: Input<'_, 'py>,
) -> PyResult<Bound<'py, PyDict>> {
    slices!(passes, failures, version, new_task, new_version, new_passes, new_failures);
    let evidence = Evidence { passes, failures, version };
    let attempts = Attempts { task: new_task, version: new_version, passes: new_passes, failures: new_failures };
    let out = on_rows(py, size_of_val(passes), || core::add_attempts(evidence, attempts))?;
    dict_of_arrays!(py, out, passes, failures, version)
}

/// Parameters of the Beta distribution of each task's pass rate, and the rate of each entry.
#[pyfunction]
pub(crate) fn posteriors<'py>(
    py: Python<'py>,
    passes: Input<'_, 'py>,
    failures: Input<'_, 'py>,
    version: Input<'_, 'py>,
    entry_of_task: Input<'_, 'py>,
    entry_count: usize,
    now: i64,
) -> PyResult<Bound<'py, PyDict>> {
    slices!(passes, failures, version, entry_of_task);
    let evidence = Evidence { passes, failures, version };
    let out = on_rows(py, size_of_val(passes), || core::posteriors(evidence, entry_of_task, entry_count, now))?;
    dict_of_arrays!(py, out, alpha, beta, entry_rate)
}

/// What a group would show, by task.
#[pyfunction]
pub(crate) fn outlook<'py>(
    py: Python<'py>,
    alpha: Input<'_, 'py>,
    beta: Input<'_, 'py>,
    group_size: u32,
) -> PyResult<Bound<'py, PyDict>> {
    slices!(alpha, beta);
    let out = on_rows(py, size_of_val(alpha), || core::outlook(alpha, beta, group_size))?;
    dict_of_arrays!(py, out, pass_at, informative_at, band)
}

/// The same, summed up by label.
#[pyfunction]
pub(crate) fn label_summary<'py>(
    py: Python<'py>,
    label_of_task: Input<'_, 'py>,
    label_count: usize,
    pass_at_1: Input<'_, 'py>,
    pass_at_group: Input<'_, 'py>,
    band: Input<'_, 'py>,
) -> PyResult<Bound<'py, PyDict>> {
    slices!(label_of_task, pass_at_1, pass_at_group, band);
    let out = core::label_summary(label_of_task, label_count, pass_at_1, pass_at_group, band).map_err(rows_error)?;
    dict_of_arrays!(py, out, tasks, pass_at_1, pass_at_group, bands)
}

/// Task, sampled rate and score of the task drawn; None where no task is eligible.
#[pyfunction]
pub(crate) fn thompson_draw<'py>(
    py: Python<'py>,
    alpha: Input<'_, 'py>,
    beta: Input<'_, 'py>,
    is_eligible: Input<'_, 'py>,
    group_size: u32,
    candidates: usize,
    key: [u8; 16],
) -> PyResult<Option<(usize, f64, f64)>> {
    slices!(alpha, beta, is_eligible);
    let key = u128::from_le_bytes(key);
    let words = [key as u64, (key >> 64) as u64];
    let draw = on_rows(py, size_of_val(alpha), || {
        core::thompson_draw(alpha, beta, is_eligible, group_size, candidates, words)
    })?;
    Ok(draw.map(|draw| (draw.task, draw.rate, draw.score)))
}
