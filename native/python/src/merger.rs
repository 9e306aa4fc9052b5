//! The incremental merge as a Python object.

use platoon_rows::{Call, Merged, Merger as Core, Trajectory};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{detach_above, dict_of_arrays, slices};
use crate::errors::rows_error;

/// Builds the columns of a row block, trajectory after trajectory, call by call.
#[pyclass(module = "platoon._native")]
#[derive(Default)]
pub(crate) struct Merger {
    core: Core,
}

#[pymethods]
impl Merger {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Ends the trajectory before it and begins one.
    fn begin(&mut self, member: u32, trajectory: u32, role: u16, depth: u16, reward: f64) {
        self.core.begin(Trajectory { member, trajectory, role, depth, reward });
    }

    /// Adds one model call.
    #[allow(clippy::too_many_arguments, reason = "one argument a column of the call table")]
    fn push(
        &mut self,
        py: Python<'_>,
        prompt: &Bound<'_, PyAny>,
        action: &Bound<'_, PyAny>,
        logprobs: &Bound<'_, PyAny>,
        policy: u16,
        version: i64,
        routing: i64,
        is_error: bool,
        is_message: bool,
    ) -> PyResult<()> {
        slices!(prompt, action, logprobs);
        let call = Call { prompt, action, logprobs, policy, version, routing, is_error, is_message };
        let core = &mut self.core;
        detach_above(py, size_of_val(call.prompt), || core.push(&call)).map_err(rows_error)
    }

    /// The columns by name. The merger is empty afterwards.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let merged: Merged = std::mem::take(&mut self.core).finish();
        dict_of_arrays!(
            py,
            merged,
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
            row_version
        )
    }
}
