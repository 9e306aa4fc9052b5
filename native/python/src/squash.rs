//! Owners of squashfs images, and the objects of SIF and OCI-SIF files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use platoon_layers::OwnerManifest;
use platoon_squash::sif::ObjectKind;
use platoon_squash::{ImageFile, Limits, Source, SquashError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arrays::give;
use crate::detach::detached;
use crate::errors::squash_error;

/// What a walk met, in columns.
#[derive(Default)]
pub(crate) struct Columns {
    paths: Vec<u8>,
    ends: Vec<u64>,
    uids: Vec<u32>,
    gids: Vec<u32>,
}

impl Columns {
    pub(crate) fn read(image: &Source) -> Result<Self, SquashError> {
        let mut columns = Self::default();
        platoon_squash::visit_owners(image, &Limits::default(), |path, uid, gid| {
            columns.paths.extend_from_slice(path);
            columns.ends.push(columns.paths.len() as u64);
            columns.uids.push(uid);
            columns.gids.push(gid);
        })?;
        Ok(columns)
    }

    fn path(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.paths[start..self.ends[number] as usize]
    }

    /// The same in order of the paths' bytes.
    pub(crate) fn into_manifest(self) -> OwnerManifest {
        let mut order: Vec<usize> = (0..self.ends.len()).collect();
        order.sort_unstable_by(|&left, &right| self.path(left).cmp(self.path(right)));
        let mut manifest = OwnerManifest::default();
        for number in order {
            manifest.push(self.path(number), self.uids[number], self.gids[number]);
        }
        manifest
    }

    fn into_dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("paths", PyBytes::new(py, &self.paths))?;
        dict.set_item("ends", give(py, self.ends))?;
        dict.set_item("uids", give(py, self.uids))?;
        dict.set_item("gids", give(py, self.gids))?;
        Ok(dict)
    }
}

pub(crate) fn with_image<T: Send>(
    py: Python<'_>,
    path: &Path,
    work: impl FnOnce(&Source) -> Result<T, SquashError> + Send,
) -> PyResult<T> {
    detached(py, squash_error, || work(&ImageFile::open(path)?.source()))
}

/// The entries of the squashfs at `offset` of a file that do not belong to 0:0, in the order of its directories: `paths` one after
/// another as bytes, `ends` where each ends, `uids`, `gids`.
#[pyfunction]
#[pyo3(signature = (path, offset=0))]
pub(crate) fn squash_entries(py: Python<'_>, path: PathBuf, offset: u64) -> PyResult<Bound<'_, PyDict>> {
    with_image(py, &path, |image| Columns::read(&image.from(offset)?))?.into_dict(py)
}

/// The objects of a SIF in their order, a dict each: `id`, `group`, `kind`, `name`, `offset`, `size_bytes`; of a partition also
/// `file_system` and `role`, of an OCI blob its `digest`.
#[pyfunction]
pub(crate) fn sif_objects(py: Python<'_>, path: PathBuf) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let objects = with_image(py, &path, platoon_squash::sif::objects)?;
    let dicts = objects.into_iter().map(|object| {
        let dict = PyDict::new(py);
        dict.set_item("id", object.id)?;
        dict.set_item("group", object.group)?;
        dict.set_item("kind", object.kind.name())?;
        dict.set_item("name", OsStr::from_bytes(&object.name))?;
        dict.set_item("offset", object.offset)?;
        dict.set_item("size_bytes", object.size_bytes)?;
        match object.kind {
            ObjectKind::Partition(partition) => {
                dict.set_item("file_system", partition.file_system.name())?;
                dict.set_item("role", partition.role.name())?;
            }
            ObjectKind::OciBlob { digest } => dict.set_item("digest", digest)?,
            _ => {}
        }
        Ok(dict)
    });
    dicts.collect()
}

/// The OCI image that an OCI-SIF holds: `manifest` and `config` as their bytes, each with its digest, and `layers`, lowest first, a
/// dict each: `offset`, `size_bytes`, `media_type`, `digest`.
#[pyfunction]
pub(crate) fn oci_sif(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let image = with_image(py, &path, platoon_squash::oci)?;
    let layers = image.layers.into_iter().map(|layer| {
        let dict = PyDict::new(py);
        dict.set_item("offset", layer.offset)?;
        dict.set_item("size_bytes", layer.size_bytes)?;
        dict.set_item("media_type", layer.media_type)?;
        dict.set_item("digest", layer.digest)?;
        Ok(dict)
    });
    let dict = PyDict::new(py);
    dict.set_item("layers", layers.collect::<PyResult<Vec<_>>>()?)?;
    dict.set_item("manifest", PyBytes::new(py, &image.manifest))?;
    dict.set_item("manifest_digest", image.manifest_digest)?;
    dict.set_item("config", PyBytes::new(py, &image.config))?;
    dict.set_item("config_digest", image.config_digest)?;
    Ok(dict)
}
