//! `platoon._native`: the Python face of the crates beside this one.
//!
//! Functions take contiguous typed arrays and give arrays, strings or dicts of arrays; `platoon.rows` and `platoon.artifacts` turn them into
//! rich types. Nothing here calls back into Python but for the handlers of signals, keeps state between calls, or leaves a thread behind.
//! The signatures stand in `platoon/_native.pyi`, which a test compares with the module.

mod arrays;
mod blocks;
mod detach;
mod errors;
mod fields;
mod files;
mod kernels;
mod layers;
mod memory;
mod merger;
mod publish;
mod squash;
mod tasks;
mod threads;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: memory::LargePages = memory::LargePages;

#[pymodule(gil_used = false)]
mod _native {
    use pyo3::types::PyDict;

    use super::*;

    #[pymodule_export]
    use super::blocks::{
        block_digest, check_block, concat_blocks, from_stored, select_rows, stored_part, stored_spans,
    };
    #[pymodule_export]
    use super::errors::{DataError, ShapeError, UnsupportedError};
    #[pymodule_export]
    use super::files::{
        content_hash, git_blob_sha1, hashed_files, input_digests, is_ignored, sha256_bytes, sha256_file, tree_files,
        tree_names,
    };
    #[pymodule_export]
    use super::kernels::{
        apply_advantages, assemble, baselines, dense_keys, discount_weights, filter_zero, level_weights,
        oldest_versions, reverse_kl, row_samples, row_totals, scale_rows, stale_rows, surviving_starts,
        training_metrics,
    };
    #[pymodule_export]
    use super::layers::{image_owners, layer_owners, saved_files};
    #[pymodule_export]
    use super::merger::Merger;
    #[pymodule_export]
    use super::publish::{publish_task, sync_file_system, verify_tasks};
    #[pymodule_export]
    use super::squash::{oci_sif, sif_objects, squash_entries};
    #[pymodule_export]
    use super::tasks::{add_attempts, label_summary, outlook, posteriors, thompson_draw};

    #[pymodule_export]
    const ACTION: u8 = platoon_rows::ACTION;
    #[pymodule_export]
    const ERROR: u8 = platoon_rows::ERROR;
    #[pymodule_export]
    const MESSAGE: u8 = platoon_rows::MESSAGE;
    #[pymodule_export]
    const NO_CALL: u32 = platoon_rows::NO_CALL;
    #[pymodule_export]
    const CONTENT_HASH_RULE: &str = platoon_digest::CONTENT_HASH_RULE;
    #[pymodule_export]
    const BLOCK_RULE: &str = platoon_rows::BLOCK_RULE;
    #[pymodule_export]
    const OWNERS_RULE: &str = platoon_layers::OWNERS_RULE;

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        threads::remember_process();
        platoon_interrupt::set_hook(detach::is_interrupted);
        Ok(())
    }

    /// How the module was built (version, target, optimisation, the rules it implements), and what it found here (the processor's unit
    /// for SHA-256, the threads that a call gets by default).
    #[pyfunction]
    fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let info = PyDict::new(py);
        info.set_item("version", env!("CARGO_PKG_VERSION"))?;
        info.set_item("target", format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS))?;
        info.set_item("optimised", !cfg!(debug_assertions))?;
        info.set_item("content_hash_rule", CONTENT_HASH_RULE)?;
        info.set_item("block_rule", BLOCK_RULE)?;
        info.set_item("owners_rule", OWNERS_RULE)?;
        info.set_item("sha_unit", platoon_digest::has_sha_unit())?;
        info.set_item("threads", threads::threads_or_default(None))?;
        Ok(info)
    }
}
