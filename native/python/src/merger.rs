//! The incremental merge as a Python object.

use platoon_rows::{Call, Chunk, Merger as Core, Trajectory};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use crate::arrays::{give_block, Column, Input};
use crate::detach::on_rows;
use crate::errors::{rows_error, DataError};
use crate::fields::{field, scalar, shown, within};

/// Builds the columns of a row block, trajectory after trajectory, call by call.
#[pyclass(module = "platoon._native")]
pub(crate) struct Merger {
    core: Core,
    policies: Vec<String>,
    roles: Vec<String>,
    /// Names of the chunks so far, in order of first appearance.
    side_names: Vec<String>,
}

#[pymethods]
impl Merger {
    #[new]
    fn new(policies: Vec<String>, roles: Vec<String>) -> Self {
        Self { core: Core::new(), policies, roles, side_names: Vec::new() }
    }

    /// Ends the trajectory before it and begins one.
    fn begin(
        &mut self,
        member: Input<'_, '_>,
        trajectory: Input<'_, '_>,
        role: Input<'_, '_>,
        depth: Input<'_, '_>,
        reward: Input<'_, '_>,
    ) -> PyResult<()> {
        let trajectory = Trajectory {
            member: scalar("member", member)?,
            trajectory: scalar("trajectory", trajectory)?,
            role: index_of(&self.roles, role, "role")?,
            depth: scalar("depth", depth)?,
            reward: scalar("reward", reward)?,
        };
        self.core.begin(trajectory).map_err(rows_error)
    }

    /// Adds one model call, read from the attributes of `platoon.rows.merge.Call`.
    fn push(&mut self, call: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = call.py();
        let lent = LentCall::read(call, &self.policies, &mut self.side_names)?;
        let chunks = lent.chunks();
        let view = lent.view(&chunks)?;
        let core = &mut self.core;
        on_rows(py, size_of_val(view.prompt), || core.push(&view))
    }

    /// Adds whole trajectories, read from the attributes of `platoon.rows.merge.TrajectoryCalls`, in columns of their final size.
    fn extend(&mut self, trajectories: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = trajectories.py();
        let mut lent = Vec::new();
        for item in trajectories.try_iter()? {
            let read = LentTrajectory::read(&item?, self);
            lent.push(read.map_err(|error| within(py, &place(lent.len(), None), error))?);
        }
        let chunks: Vec<Vec<Chunk<'_>>> = lent.iter().flat_map(|item| &item.calls).map(|call| call.chunks()).collect();
        let mut chunks_of_calls = chunks.iter();
        let mut views = Vec::with_capacity(lent.len());
        let (mut read, mut kept, mut calls) = (0, 0, 0);
        for (index, item) in lent.iter().enumerate() {
            let mut view = Vec::with_capacity(item.calls.len());
            for (at, call) in item.calls.iter().enumerate() {
                let chunks = chunks_of_calls.next().map_or(&[][..], Vec::as_slice);
                view.push(call.view(chunks).map_err(|error| within(py, &place(index, Some(at)), error))?);
            }
            read += view.iter().map(|call| size_of_val(call.prompt)).sum::<usize>();
            // The longest call of a trajectory is part of one of its rows.
            kept += view.iter().map(|call| call.prompt.len() + call.action.len()).max().unwrap_or(0);
            calls += view.len();
            views.push((item.trajectory, view));
        }
        let core = &mut self.core;
        on_rows(py, read, || {
            core.reserve(kept, calls);
            for (index, (trajectory, calls)) in views.iter().enumerate() {
                core.begin(*trajectory).map_err(|error| error.within(place(index, None)))?;
                for (at, call) in calls.iter().enumerate() {
                    core.push(call).map_err(|error| error.within(place(index, Some(at))))?;
                }
            }
            Ok(())
        })
    }

    /// The columns by name, and `side_names`. The merger is empty afterwards.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let merged = std::mem::take(&mut self.core).finish();
        let columns = give_block(py, merged)?;
        columns.set_item("side_names", PyTuple::new(py, std::mem::take(&mut self.side_names))?)?;
        Ok(columns)
    }
}

/// How errors name a trajectory, or one of its calls.
fn place(trajectory: usize, call: Option<usize>) -> String {
    match call {
        Some(call) => format!("trajectories[{trajectory}].calls[{call}]"),
        None => format!("trajectories[{trajectory}]"),
    }
}

struct LentTrajectory<'py> {
    trajectory: Trajectory,
    calls: Vec<LentCall<'py>>,
}

impl<'py> LentTrajectory<'py> {
    fn read(item: &Bound<'py, PyAny>, merger: &mut Merger) -> PyResult<Self> {
        let py = item.py();
        let trajectory = Trajectory {
            member: field!(item, member),
            trajectory: field!(item, trajectory),
            role: index_of(&merger.roles, &item.getattr(intern!(py, "role"))?, "role")?,
            depth: field!(item, depth),
            reward: field!(item, reward),
        };
        let mut calls = Vec::new();
        for call in item.getattr(intern!(py, "calls"))?.try_iter()? {
            let read = LentCall::read(&call?, &merger.policies, &mut merger.side_names);
            calls.push(read.map_err(|error| within(py, &format!("calls[{}]", calls.len()), error))?);
        }
        Ok(Self { trajectory, calls })
    }
}

/// One call, its arrays still Python's.
struct LentCall<'py> {
    prompt: Column<'py, u32>,
    action: Column<'py, u32>,
    logprobs: Column<'py, f32>,
    policy: u16,
    version: i64,
    routing: i64,
    is_error: bool,
    is_message: bool,
    chunks: Vec<LentChunk<'py>>,
}

struct LentChunk<'py> {
    at: u32,
    length: u32,
    name: u16,
    data: Bound<'py, PyBytes>,
}

impl<'py> LentCall<'py> {
    fn read(call: &Bound<'py, PyAny>, policies: &[String], side_names: &mut Vec<String>) -> PyResult<Self> {
        let py = call.py();
        let chunks = call.getattr(intern!(py, "chunks"))?;
        Ok(Self {
            prompt: Column::read("prompt", &call.getattr(intern!(py, "prompt"))?)?,
            action: Column::read("action", &call.getattr(intern!(py, "action"))?)?,
            logprobs: Column::read("logprobs", &call.getattr(intern!(py, "logprobs"))?)?,
            policy: index_of(policies, &call.getattr(intern!(py, "policy"))?, "policy")?,
            version: field!(call, version),
            routing: field!(call, routing),
            is_error: field!(call, is_error),
            is_message: field!(call, is_message),
            chunks: if chunks.is_truthy()? { read_chunks(&chunks, side_names)? } else { Vec::new() },
        })
    }

    fn chunks(&self) -> Vec<Chunk<'_>> {
        self.chunks
            .iter()
            .map(|chunk| Chunk { at: chunk.at, length: chunk.length, name: chunk.name, data: chunk.data.as_bytes() })
            .collect()
    }

    fn view<'a>(&'a self, chunks: &'a [Chunk<'a>]) -> PyResult<Call<'a>> {
        Ok(Call {
            prompt: self.prompt.slice()?,
            chunks,
            action: self.action.slice()?,
            logprobs: self.logprobs.slice()?,
            policy: self.policy,
            version: self.version,
            routing: self.routing,
            is_error: self.is_error,
            is_message: self.is_message,
        })
    }
}

fn read_chunks<'py>(chunks: &Bound<'py, PyAny>, side_names: &mut Vec<String>) -> PyResult<Vec<LentChunk<'py>>> {
    let py = chunks.py();
    let mut read = |chunk: Bound<'py, PyAny>| {
        Ok(LentChunk {
            at: field!(chunk, at),
            length: field!(chunk, length),
            name: number_of(side_names, &field!(chunk, name))?,
            data: field!(chunk, data),
        })
    };
    let places = chunks.try_iter()?.enumerate();
    places.map(|(at, chunk)| read(chunk?).map_err(|error| within(py, &format!("chunks[{at}]"), error))).collect()
}

/// The index of a name that must be there.
fn index_of(names: &[String], name: &Bound<'_, PyAny>, kind: &str) -> PyResult<u16> {
    let text = name.cast::<PyString>().ok().and_then(|text| text.to_str().ok());
    match names.iter().position(|known| Some(known.as_str()) == text).map(u16::try_from) {
        Some(Ok(index)) => Ok(index),
        _ => {
            let known = if names.is_empty() { "the names of the block (none)".to_owned() } else { names.join(", ") };
            Err(DataError::new_err(format!("{kind} {} is not among {known}", shown(name))))
        }
    }
}

/// The index of a name, which is added unless it is there.
fn number_of(names: &mut Vec<String>, name: &Bound<'_, PyString>) -> PyResult<u16> {
    let text = name.to_str().map_err(|_| DataError::new_err(format!("name: {} is not UTF-8", shown(name))))?;
    let index = names.iter().position(|known| known == text).unwrap_or(names.len());
    if index == names.len() {
        names.push(text.to_owned());
    }
    u16::try_from(index).map_err(|_| DataError::new_err("a block holds fewer than 2^16 names of chunks"))
}
