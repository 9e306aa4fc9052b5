//! Owners of container images from their layers, without unpacking them.
//!
//! A layer is a tar, plain or compressed, and only its headers are looked at: [`Members`] streams them, in memory that does not grow with
//! their number, and verifies the digests that a manifest gives while the bytes pass. [`Rootfs`] applies layers to each other, lowest first,
//! as runtimes unpack them: whiteouts, replaced directories, hard links, paths below symbolic links. It remembers only what is not root's.
//! An [`OwnerManifest`] is the one canonical form, whatever the owners were read from.
//!
//! Nothing is written and no path of a layer reaches the file system of this machine. `docs/reference/owners.md` holds the rules.
//!
//! ```no_run
//! use platoon_layers::{layer_manifest, Layer, Limits};
//!
//! let layers = [Layer::file("base.tar.gz"), Layer::file("top.tar.zst")];
//! let manifest = layer_manifest(&layers, &Limits::default())?;
//! print!("{}", String::from_utf8_lossy(&manifest.bytes));
//! # Ok::<(), platoon_layers::LayersError>(())
//! ```

mod apply;
mod compression;
mod error;
mod gzip;
mod header;
mod layer;
mod limits;
mod member;
mod members;
mod name;
mod owners;
mod part;
mod pax;
mod pending;
mod raw;
mod resolve;
mod saved;
mod tree;
mod walk;
mod window;
mod zstd_frames;

pub use apply::{layer_manifest, Rootfs};
pub use compression::Compression;
pub use error::{Fault, LayersError};
pub use layer::{Inside, Layer};
pub use limits::Limits;
pub use member::{Kind, Member};
pub use members::Members;
pub use owners::{OwnerManifest, MAX_ID, OWNERS_RULE};
pub use saved::{saved_files, SavedFile};
