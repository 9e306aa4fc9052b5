//! Owners of squashfs images, and the objects of SIF and OCI-SIF files: no tool, no mount, no data block.
//!
//! A rootless extraction gives every file to the caller, so who owned what is read from the image itself. Only the superblock, the id
//! table, the inode table and the directory table of a squashfs are read, with positioned reads, at any offset of a file.
//!
//! Handled are squashfs 4.0, little-endian, packed with gzip, xz, lz4 or zstd. Other versions, big-endian images and the compressors
//! lzo and lzma are refused by name. Nothing is allocated for a count or size before the file is known to hold it; whatever a file
//! holds, the answer is owners or an error that says which table or entry is wrong and at which byte. [`Limits`] bounds the rest.
//!
//! ```no_run
//! let file = platoon_squash::ImageFile::open(std::path::Path::new("image.sif"))?;
//! let root = platoon_squash::root_file_system(&file.source())?;
//! for owner in platoon_squash::owners(&root)? {
//!     println!("{} {} {}", owner.uid, owner.gid, owner.path.escape_ascii());
//! }
//! # Ok::<(), platoon_squash::SquashError>(())
//! ```

mod bytes;
mod compression;
mod digest;
mod directory;
mod error;
mod ids;
mod image;
mod inode;
mod metadata;
mod oci_sif;
mod owners;
pub mod sif;
mod slots;
mod source;
mod superblock;
mod window;

pub use error::{Fault, SquashError};
pub use image::root_file_system;
pub use oci_sif::{oci, Layer, OciImage, SQUASHFS_LAYER};
pub use owners::{owners, visit_owners, Limits, Owner};
pub use source::{ImageFile, ReadAt, Source};
