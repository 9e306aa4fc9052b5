//! Owner manifests of images, from their layers or their file system.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use platoon_layers::{Inside, Layer, Limits, Members, OwnerManifest, SavedFile};
use platoon_squash::Source;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::detach::detached;
use crate::errors::layers_error;
use crate::squash::{with_image, Columns};

/// A layer as Python gives it: place, media type, size in bytes, digest, diff_id.
type GivenLayer = (Place, Option<String>, Option<u64>, Option<String>, Option<String>);

/// Where a layer lies: a file, or a tar with the name, offset and size of a file in it.
#[derive(FromPyObject)]
pub(crate) enum Place {
    Inside((PathBuf, PathBuf, u64, u64)),
    File(PathBuf),
}

/// A file of an archive as Python gets it: name, target of a symbolic link, offset, size in bytes.
type GivenFile = (OsString, Option<OsString>, u64, u64);

/// A manifest as Python gets it: its bytes, the paths in it, the paths that no line can hold.
type GivenManifest<'py> = (Bound<'py, PyBytes>, usize, usize);

fn give_manifest(py: Python<'_>, manifest: OwnerManifest) -> GivenManifest<'_> {
    (PyBytes::new(py, &manifest.bytes), manifest.count, manifest.unrepresentable)
}

/// The owner manifest of an image from its layers, lowest first: its bytes, how many paths it names, how many no line can hold.
#[pyfunction]
pub(crate) fn layer_owners(py: Python<'_>, layers: Vec<GivenLayer>) -> PyResult<GivenManifest<'_>> {
    let layers: Vec<Layer> = layers
        .into_iter()
        .map(|(place, media_type, size_bytes, digest, diff_id)| {
            let (path, inside) = match place {
                Place::File(path) => (path, None),
                Place::Inside((path, name, offset, size_bytes)) => (path, Some(Inside { name, offset, size_bytes })),
            };
            Layer { path, inside, media_type, size_bytes, digest, diff_id }
        })
        .collect();
    let read = || platoon_layers::layer_manifest(&layers, &Limits::default());
    Ok(give_manifest(py, detached(py, layers_error, read)?))
}

/// The files of an archive of an image (`docker save`, OCI), in their order; None for any other tar.
#[pyfunction]
pub(crate) fn saved_files(py: Python<'_>, path: PathBuf) -> PyResult<Option<Vec<GivenFile>>> {
    let files = detached(py, layers_error, || {
        let limits = Limits::default();
        platoon_layers::saved_files(Members::open(&Layer::file(path), &limits)?, &limits)
    })?;
    let given = |SavedFile { name, target, offset, size_bytes }| {
        (OsString::from_vec(name), target.map(OsString::from_vec), offset, size_bytes)
    };
    Ok(files.map(|files| files.into_iter().map(given).collect()))
}

/// The owner manifest of the root file system of an image: a squashfs, a SIF with one squashfs partition, or an OCI-SIF of one layer.
/// The file that is read is the one whose size and digest (`sha256:` and hex) were verified, where they are given.
#[pyfunction]
#[pyo3(signature = (path, size_bytes=None, digest=None))]
pub(crate) fn image_owners(
    py: Python<'_>,
    path: PathBuf,
    size_bytes: Option<u64>,
    digest: Option<String>,
) -> PyResult<GivenManifest<'_>> {
    let read = |image: &Source| {
        image.verify(size_bytes, digest.as_deref())?;
        Ok(Columns::read(&platoon_squash::root_file_system(image)?)?.into_manifest())
    };
    Ok(give_manifest(py, with_image(py, &path, read)?))
}
