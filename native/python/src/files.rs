//! Hashing of files, task directories and any other tree.

use std::path::{Path, PathBuf};

use platoon_digest::{hex, HashedFile, IgnoreRules, Leads, TreeFile};
use pyo3::prelude::*;

use crate::arrays::Bytes;
use crate::detach::{detached, on_memory};
use crate::errors::digest_error;
use crate::threads::threads_or_default;

/// Relative path, SHA-256 hex, size in bytes.
type FileRow = (String, String, u64);

/// SHA-256 of a regular file, links followed: lower-case hex and the size in bytes.
#[pyfunction]
pub(crate) fn sha256_file(py: Python<'_>, path: PathBuf) -> PyResult<(String, u64)> {
    let (digest, size_bytes) = detached(py, digest_error, || platoon_digest::sha256_file(&path))?;
    Ok((hex(&digest), size_bytes))
}

/// SHA-256 of contiguous buffers, end to end: lower-case hex.
#[pyfunction]
#[pyo3(signature = (*parts))]
pub(crate) fn sha256_bytes(py: Python<'_>, parts: Vec<Bound<'_, PyAny>>) -> PyResult<String> {
    let lent = parts.iter().map(Bytes::read).collect::<PyResult<Vec<_>>>()?;
    let parts: Vec<&[u8]> = lent.iter().map(Bytes::slice).collect();
    let size_bytes = parts.iter().map(|part| part.len()).sum();
    let digest = on_memory(py, size_bytes, || platoon_digest::sha256_bytes(parts.iter().copied()));
    Ok(hex(&digest))
}

/// The name git gives a file of this content, 40 lower-case hex digits.
#[pyfunction]
pub(crate) fn git_blob_sha1(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let digest = detached(py, digest_error, || platoon_digest::git_blob_sha1(&path))?;
    Ok(hex(&digest))
}

/// The content hash of a task directory, lower-case hex.
#[pyfunction]
#[pyo3(signature = (task_dir, threads=None))]
pub(crate) fn content_hash(py: Python<'_>, task_dir: PathBuf, threads: Option<usize>) -> PyResult<String> {
    let threads = threads_or_default(threads);
    let digest = detached(py, digest_error, || platoon_digest::content_hash(&task_dir, threads))?;
    Ok(hex(&digest))
}

/// The content hash of a task directory and the files that entered it, by path.
#[pyfunction]
#[pyo3(signature = (task_dir, threads=None))]
pub(crate) fn hashed_files(
    py: Python<'_>,
    task_dir: PathBuf,
    threads: Option<usize>,
) -> PyResult<(String, Vec<FileRow>)> {
    let threads = threads_or_default(threads);
    let task = detached(py, digest_error, || platoon_digest::hash_task(&task_dir, threads))?;
    Ok((task.digest(), task.files.into_iter().map(file_row).collect()))
}

pub(crate) fn file_row(file: HashedFile) -> FileRow {
    (file.path, hex(&file.sha256), file.size_bytes)
}

/// True where the patterns of `text`, the text of an ignore file, leave out the file at `path` (relative, POSIX).
#[pyfunction]
pub(crate) fn is_ignored(text: &str, path: &str) -> PyResult<bool> {
    let rules = IgnoreRules::parse(text, Path::new(".gitignore")).map_err(digest_error)?;
    Ok(rules.is_ignored(path))
}

/// The files of a directory by path, all or the named ones: (relative path, SHA-256 hex, size in bytes, is executable).
#[pyfunction]
#[pyo3(signature = (directory, paths=None, threads=None))]
pub(crate) fn tree_files(
    py: Python<'_>,
    directory: PathBuf,
    paths: Option<Vec<String>>,
    threads: Option<usize>,
) -> PyResult<Vec<(String, String, u64, bool)>> {
    let threads = threads_or_default(threads);
    let files = detached(py, digest_error, || match &paths {
        Some(paths) => platoon_digest::named_tree_files(&directory, paths, threads),
        None => platoon_digest::tree_files(&directory, threads),
    })?;
    let row = |TreeFile { file, is_executable }| {
        let (path, digest, size_bytes) = file_row(file);
        (path, digest, size_bytes, is_executable)
    };
    Ok(files.into_iter().map(row).collect())
}

/// Every file and link of the directory `below` (relative) of a tree: its path from there, and what it leads to within the tree: `file`,
/// `directory`, `outside` where a link leaves the tree, or None.
#[pyfunction]
#[pyo3(signature = (directory, below, threads=None))]
pub(crate) fn tree_names(
    py: Python<'_>,
    directory: PathBuf,
    below: PathBuf,
    threads: Option<usize>,
) -> PyResult<Vec<(String, Option<&'static str>)>> {
    let threads = threads_or_default(threads);
    let names = detached(py, digest_error, || platoon_digest::tree_names(&directory, &below, threads))?;
    let kind = |leads| match leads {
        Leads::ToFile => Some("file"),
        Leads::ToDirectory => Some("directory"),
        Leads::Outside => Some("outside"),
        Leads::Nowhere => None,
    };
    Ok(names.into_iter().map(|(path, leads)| (path, kind(leads))).collect())
}

/// The input digests (normalised text) of files below a directory, lower-case hex, in the order of `paths`.
#[pyfunction]
pub(crate) fn input_digests(py: Python<'_>, directory: PathBuf, paths: Vec<String>) -> PyResult<Vec<String>> {
    let digests = detached(py, digest_error, || platoon_digest::input_digests(&directory, &paths))?;
    Ok(digests.iter().map(|digest| hex(digest)).collect())
}
