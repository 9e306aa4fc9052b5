//! The incremental merge as a Python object.

use platoon_rows::{Call, Merged, Merger as Core, Trajectory};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{detach_above, give, Column};
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
        let prompt = Column::read("prompt", prompt)?;
        let action = Column::read("action", action)?;
        let logprobs = Column::read("logprobs", logprobs)?;
        let call = Call {
            prompt: prompt.slice()?,
            action: action.slice()?,
            logprobs: logprobs.slice()?,
            policy,
            version,
            routing,
            is_error,
            is_message,
        };
        let core = &mut self.core;
        detach_above(py, size_of_val(call.prompt), || core.push(&call)).map_err(rows_error)
    }

    /// The columns by name. The merger is empty afterwards.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let merged: Merged = std::mem::take(&mut self.core).finish();
        let columns = PyDict::new(py);
        columns.set_item("tokens", give(py, merged.tokens))?;
        columns.set_item("logprobs", give(py, merged.logprobs))?;
        columns.set_item("flags", give(py, merged.flags))?;
        columns.set_item("call", give(py, merged.call))?;
        columns.set_item("offsets", give(py, merged.offsets))?;
        columns.set_item("call_policy", give(py, merged.call_policy))?;
        columns.set_item("call_version", give(py, merged.call_version))?;
        columns.set_item("call_routing", give(py, merged.call_routing))?;
        columns.set_item("row_member", give(py, merged.row_member))?;
        columns.set_item("row_trajectory", give(py, merged.row_trajectory))?;
        columns.set_item("row_policy", give(py, merged.row_policy))?;
        columns.set_item("row_role", give(py, merged.row_role))?;
        columns.set_item("row_depth", give(py, merged.row_depth))?;
        columns.set_item("row_start", give(py, merged.row_start))?;
        columns.set_item("row_reward", give(py, merged.row_reward))?;
        columns.set_item("row_version", give(py, merged.row_version))?;
        Ok(columns)
    }
}
