//! Digests of files and of task directories.
//!
//! Everything is read below directory descriptors, one component at a time and without following a link unseen, so that a tree that
//! changes under the reader can give an error or a digest, and never the bytes of a file outside it. Results do not depend on the order
//! in which a file system lists its entries.
//!
//! ```no_run
//! let task = platoon_digest::hash_task(std::path::Path::new("tasks/one"), 2)?;
//! println!("sha256:{} over {} files", task.digest(), task.files.len());
//! # Ok::<(), platoon_digest::DigestError>(())
//! ```

mod content;
mod error;
mod file;
mod hasher;
mod ignore;
mod input;
mod lanes;
mod listing;
mod owned;
mod publish;
mod queue;
mod tree;
mod verify;
mod walk;

pub use content::{content_hash, hash_task, HashedFile, HashedTask, CONTENT_HASH_RULE};
pub use error::DigestError;
pub use file::{from_hex, git_blob_sha1, hex, sha256_bytes, sha256_file, Sha256Bytes};
pub use ignore::IgnoreRules;
pub use input::{digest_of as input_digest_of, input_digest, input_digests};
pub use lanes::has_sha_unit;
pub use listing::{named_tree_files, tree_files, tree_names, Leads, TreeFile};
pub use publish::{publish_task, sync_file_system, Outcome, Publication, Published};
pub use verify::{verify_tasks, Difference, ExpectedTask};
