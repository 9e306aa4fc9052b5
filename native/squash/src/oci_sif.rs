//! OCI-SIF: a SIF whose objects are an OCI layout.
//!
//! The root index names a manifest, the manifest a configuration and layers, each by the digest under which an `OCI.Blob` holds it.
//! Sizes are compared with what was said of them, and the digests of the JSON blobs are computed; the layers are not read.

use serde::Deserialize;

use crate::digest::{is_sha256, sha256};
use crate::sif::{self, Object, ObjectKind};
use crate::{Fault, Source, SquashError};

pub const SQUASHFS_LAYER: &str = "application/vnd.sylabs.image.layer.v1.squashfs";

/// Registries take manifests up to 4 MiB; configurations are of the same kind.
const JSON_BYTES: u64 = 4 << 20;

/// What an OCI-SIF holds. The JSON is as it is stored, its digest verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciImage {
    pub manifest: Vec<u8>,
    pub manifest_digest: String,
    pub config: Vec<u8>,
    pub config_digest: String,
    /// Lowest first.
    pub layers: Vec<Layer>,
}

/// A layer, where it lies in the file. Its digest is what the manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    pub offset: u64,
    pub size_bytes: u64,
    pub media_type: String,
    pub digest: String,
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
}

/// Whether the objects of a SIF are an OCI layout.
pub fn is_oci(objects: &[Object]) -> bool {
    objects.iter().any(|object| object.kind == ObjectKind::OciRootIndex)
}

/// Follows the digests from the root index.
///
/// # Errors
/// An index of several manifests, an algorithm other than SHA-256, a blob that is missing, has another size or another digest.
pub fn oci(image: &Source) -> Result<OciImage, SquashError> {
    let objects = sif::objects(image)?;
    let layout = Layout { image: *image, objects: &objects };
    let index: Index = layout.parse("OCI root index", &layout.root_index()?)?;
    let [manifest] = index.manifests.as_slice() else {
        return Err(layout.unsupported(format!("an OCI root index of {} manifests", index.manifests.len())));
    };
    let manifest_bytes = layout.json("OCI manifest", manifest)?;
    let parsed: Manifest = layout.parse("OCI manifest", &manifest_bytes)?;
    let config = layout.json("OCI configuration", &parsed.config)?;
    let mut layers = Vec::with_capacity(parsed.layers.len());
    for layer in parsed.layers {
        let blob = layout.blob("OCI layer", &layer)?;
        let Descriptor { media_type, digest, .. } = layer;
        layers.push(Layer { offset: blob.offset, size_bytes: blob.size_bytes, media_type, digest });
    }
    let manifest_digest = manifest.digest.clone();
    Ok(OciImage { manifest: manifest_bytes, manifest_digest, config, config_digest: parsed.config.digest, layers })
}

struct Layout<'a> {
    image: Source<'a>,
    objects: &'a [Object],
}

impl Layout<'_> {
    fn root_index(&self) -> Result<Vec<u8>, SquashError> {
        let mut found = self.objects.iter().filter(|object| object.kind == ObjectKind::OciRootIndex);
        match (found.next(), found.next()) {
            (Some(object), None) => self.read("OCI root index", object),
            (None, _) => Err(self.unsupported("a SIF without an OCI root index, as OCI-SIF,".into())),
            (Some(_), Some(_)) => Err(self.unsupported("a SIF of several OCI root indices".into())),
        }
    }

    /// The blob of this digest; `part` says in errors what it was to be.
    fn blob(&self, part: &str, descriptor: &Descriptor) -> Result<&Object, SquashError> {
        let holds =
            |object: &&Object| matches!(&object.kind, ObjectKind::OciBlob { digest } if *digest == descriptor.digest);
        if !is_sha256(&descriptor.digest) {
            return Err(self.unsupported(format!("the digest {:?} of an {part}", descriptor.digest)));
        }
        let Some(object) = self.objects.iter().find(holds) else {
            let expected = format!("a blob of digest {}", descriptor.digest);
            return Err(self.damaged(part, 0, Fault::Text { got: "none of the objects".into(), expected }));
        };
        if object.size_bytes != descriptor.size {
            let (got, expected) = (object.size_bytes, descriptor.size);
            let fault = Fault::Text { got: format!("{got} bytes"), expected: format!("a blob of {expected}") };
            return Err(self.damaged(part, object.offset, fault));
        }
        Ok(object)
    }

    /// The bytes of a JSON blob, their digest verified.
    fn json(&self, part: &str, descriptor: &Descriptor) -> Result<Vec<u8>, SquashError> {
        let object = self.blob(part, descriptor)?;
        let bytes = self.read(part, object)?;
        let got = sha256(&bytes);
        if got != descriptor.digest {
            let fault = Fault::Text { got, expected: descriptor.digest.clone() };
            return Err(self.damaged(part, object.offset, fault));
        }
        Ok(bytes)
    }

    fn read(&self, part: &str, object: &Object) -> Result<Vec<u8>, SquashError> {
        if object.size_bytes > JSON_BYTES {
            let path = self.image.path().into();
            return Err(SquashError::Limit { path, what: "bytes in one JSON object", limit: JSON_BYTES });
        }
        self.image.part(part, object.offset, object.size_bytes)?.bytes(part)
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, part: &str, bytes: &[u8]) -> Result<T, SquashError> {
        serde_json::from_slice(bytes).map_err(|error| self.damaged(part, 0, Fault::Json { reason: error.to_string() }))
    }

    fn unsupported(&self, what: String) -> SquashError {
        SquashError::Unsupported { path: self.image.path().into(), what }
    }

    fn damaged(&self, part: &str, offset: u64, fault: Fault) -> SquashError {
        let offset = self.image.in_file(offset);
        SquashError::Damaged { path: self.image.path().into(), part: part.into(), offset, fault }
    }
}
