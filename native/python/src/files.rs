//! Hashing of files and task directories.

use std::path::{Path, PathBuf};

use platoon_digest::IgnoreRules;
use pyo3::prelude::*;

use crate::errors::digest_error;

/// SHA-256 of a regular file, links followed: lower-case hex and the size in bytes.
#[pyfunction]
pub(crate) fn sha256_file(py: Python<'_>, path: PathBuf) -> PyResult<(String, u64)> {
    py.detach(|| platoon_digest::sha256_file(&path)).map_err(digest_error)
}

/// The content hash of a task directory, lower-case hex.
#[pyfunction]
pub(crate) fn content_hash(py: Python<'_>, task_dir: PathBuf) -> PyResult<String> {
    py.detach(|| platoon_digest::hash_task(&task_dir)).map(|task| task.digest).map_err(digest_error)
}

/// The files that entered a content hash, by path: (relative path, SHA-256 hex, size in bytes).
#[pyfunction]
pub(crate) fn hashed_files(py: Python<'_>, task_dir: PathBuf) -> PyResult<Vec<(String, String, u64)>> {
    let task = py.detach(|| platoon_digest::hash_task(&task_dir)).map_err(digest_error)?;
    Ok(task.files.into_iter().map(|file| (file.path, file.sha256, file.size_bytes)).collect())
}

/// True where the patterns of `text`, the text of an ignore file, leave out the file at `path` (relative, POSIX).
#[pyfunction]
pub(crate) fn is_ignored(text: &str, path: &str) -> PyResult<bool> {
    let rules = IgnoreRules::parse(text, Path::new(".gitignore")).map_err(digest_error)?;
    Ok(rules.is_ignored(path))
}
