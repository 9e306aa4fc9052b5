//! Digests of files and of task directories.
//!
//! Everything is read below directory descriptors, one component at a time and without following a link unseen, so that a tree that
//! changes under the reader can give an error or a digest, and never the bytes of a file outside it. Results do not depend on the order
//! in which a file system lists its entries.
//!
//! ```no_run
//! let tree = platoon_digest::hash_task(std::path::Path::new("tasks/one"))?;
//! println!("sha256:{} over {} files", tree.digest, tree.files.len());
//! # Ok::<(), platoon_digest::DigestError>(())
//! ```

mod content;
mod error;
mod file;
mod ignore;
mod tree;

pub use content::{hash_task, HashedFile, HashedTask, CONTENT_HASH_RULE};
pub use error::DigestError;
pub use file::{hex, sha256_file};
pub use ignore::IgnoreRules;
