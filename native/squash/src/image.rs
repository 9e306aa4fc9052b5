//! The root file system of an image file, whichever of the formats it is in.

use crate::oci_sif::{self, SQUASHFS_LAYER};
use crate::sif::{self, FileSystem, Object, ObjectKind, Partition, Role};
use crate::superblock::MAGIC;
use crate::{Source, SquashError};

/// The window of the squashfs that becomes the root: the whole file where it is one, a SIF's primary partition, or the one layer of
/// an OCI-SIF.
///
/// # Errors
/// An image whose root would be put together of more than that squashfs, or is none, is refused by what it holds: its owners would
/// be an incomplete record.
pub fn root_file_system<'a>(image: &Source<'a>) -> Result<Source<'a>, SquashError> {
    if sif::is_sif(image)? {
        return sif_root(image);
    }
    let mut magic = [0; 4];
    image.read("the image", 0, &mut magic)?;
    if magic == *MAGIC || magic == *b"sqsh" {
        return Ok(*image);
    }
    let path = image.path().into();
    Err(SquashError::Magic { path, expected: "a squashfs or a SIF", offset: image.in_file(0), got: magic.into() })
}

fn sif_root<'a>(image: &Source<'a>) -> Result<Source<'a>, SquashError> {
    let objects = sif::objects(image)?;
    if oci_sif::is_oci(&objects) {
        return oci_root(image);
    }
    let partitions: Vec<(&Object, Partition)> = objects
        .iter()
        .filter_map(|object| match object.kind {
            ObjectKind::Partition(partition) => Some((object, partition)),
            _ => None,
        })
        .filter(|(_, partition)| partition.role != Role::Data)
        .collect();
    let refused = |what: String| Err(SquashError::Unsupported { path: image.path().into(), what });
    if let Some((object, partition)) = partitions.iter().find(|(_, partition)| partition.role == Role::Overlay) {
        let name = partition.file_system.name();
        return refused(format!(
            "a SIF with an overlay ({name}, object {}), whose owners would be missing,",
            object.id
        ));
    }
    match partitions.as_slice() {
        [] => refused("a SIF without a system partition".into()),
        [(object, Partition { file_system: FileSystem::Squashfs, .. })] => {
            image.part("SIF partition", object.offset, object.size_bytes)
        }
        [(object, partition)] => {
            let name = partition.file_system.name();
            refused(format!("a SIF whose system partition (object {}) is {name}", object.id))
        }
        several => refused(format!("a SIF of {} system partitions", several.len())),
    }
}

fn oci_root<'a>(image: &Source<'a>) -> Result<Source<'a>, SquashError> {
    let found = oci_sif::oci(image)?;
    let refused = |what: String| Err(SquashError::Unsupported { path: image.path().into(), what });
    match found.layers.as_slice() {
        [layer] if layer.media_type == SQUASHFS_LAYER => image.part("OCI layer", layer.offset, layer.size_bytes),
        [layer] => refused(format!("an OCI-SIF whose layer is {:?}", layer.media_type)),
        layers => refused(format!("an OCI-SIF of {} layers (one squashfs layer is)", layers.len())),
    }
}
