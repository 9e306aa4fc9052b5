//! Publishing task directories, and checking published ones.

use std::collections::HashSet;
use std::path::PathBuf;

use platoon_digest::{Difference, ExpectedTask, Outcome, Publication, Sha256Bytes};
use pyo3::prelude::*;

use crate::detach::detached;
use crate::errors::{digest_error, without_errno, DataError};
use crate::threads::threads_or_default;

/// Task directory, SHA-256 hex, and its files by path with their SHA-256 hex where they are known.
type ExpectedRow = (PathBuf, String, Option<Vec<(String, String)>>);

/// Copies a task directory to `base/trees/<hex>` through `base/staged`: the digest, and what came of it.
#[pyfunction]
#[pyo3(signature = (source, base, trees, staged, programs, expected=None, durable=true))]
#[allow(clippy::too_many_arguments, reason = "one argument a field of the publication")]
pub(crate) fn publish_task(
    py: Python<'_>,
    source: PathBuf,
    base: PathBuf,
    trees: PathBuf,
    staged: PathBuf,
    programs: HashSet<String>,
    expected: Option<&str>,
    durable: bool,
) -> PyResult<(String, &'static str)> {
    let publication = Publication {
        base: &base,
        tasks: &trees,
        staged: &staged,
        programs: &programs,
        expected: expected.map(sha256_of).transpose()?,
        is_durable: durable,
    };
    let published = detached(py, digest_error, || platoon_digest::publish_task(&source, publication))?;
    let outcome = match published.outcome {
        Outcome::Copied => "copied",
        Outcome::Found => "found",
        Outcome::Changed => "changed",
    };
    Ok((published.task.digest(), outcome))
}

/// Makes what was written to the file system of `path` durable.
#[pyfunction]
pub(crate) fn sync_file_system(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    detached(py, digest_error, || platoon_digest::sync_file_system(&path))
}

/// What differs first in each task, or None.
#[pyfunction]
#[pyo3(signature = (tasks, threads=None))]
pub(crate) fn verify_tasks(
    py: Python<'_>,
    tasks: Vec<ExpectedRow>,
    threads: Option<usize>,
) -> PyResult<Vec<Option<String>>> {
    let threads = threads_or_default(threads);
    let tasks: Vec<ExpectedTask> = tasks.into_iter().map(expected_task).collect::<PyResult<_>>()?;
    let differences = detached(py, digest_error, || platoon_digest::verify_tasks(&tasks, threads))?;
    let told = |difference: Difference| without_errno(&difference.to_string()).to_owned();
    Ok(differences.into_iter().map(|found| found.map(told)).collect())
}

fn expected_task((path, digest, files): ExpectedRow) -> PyResult<ExpectedTask> {
    let file = |(path, digest): (String, String)| Ok((path, sha256_of(&digest)?));
    let mut files = files.map(|files| files.into_iter().map(file).collect::<PyResult<Vec<_>>>()).transpose()?;
    if let Some(files) = &mut files {
        files.sort_unstable();
    }
    Ok(ExpectedTask { path, sha256: sha256_of(&digest)?, files })
}

/// Reads 64 lower-case hex digits.
fn sha256_of(text: &str) -> PyResult<Sha256Bytes> {
    platoon_digest::from_hex(text)
        .ok_or_else(|| DataError::new_err(format!("{text:?} is not 64 lower-case hex digits")))
}
