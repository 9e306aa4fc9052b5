//! Archives of images, as `docker save`, Podman, Skopeo and writers of OCI archives make them: a plain tar of documents and layers.

use crate::error::shown;
use crate::name::components;
use crate::{Compression, Kind, LayersError, Limits, Members};

/// One of these says what the archive is.
const MARKERS: [&[u8]; 2] = [b"oci-layout", b"manifest.json"];
const DOCUMENTS: [&[u8]; 4] = [b"oci-layout", b"index.json", b"manifest.json", b"repositories"];
const BLOBS: &[u8] = b"blobs";
const DIGEST_DIGITS: usize = 64;
/// What a file takes beside its name and target, in the hands of Python too.
const FILE_BYTES: usize = 512;

/// A file of an archive, or a link to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedFile {
    /// Without leading `./` and `/`, and without empty and `.` components.
    pub name: Vec<u8>,
    /// Where a symbolic link leads from its directory, as it is written.
    pub target: Option<Vec<u8>>,
    /// Of its bytes in the archive.
    pub offset: u64,
    pub size_bytes: u64,
}

/// The files of an archive of an image, in their order; `None` for anything else, told by the first name that no such archive has.
///
/// It must be plain, so that its files can be read where they lie. A name at the top is a document of an image, `blobs`, or begins with the digits of a SHA-256.
pub fn saved_files(mut members: Members<'_>, limits: &Limits) -> Result<Option<Vec<SavedFile>>, LayersError> {
    let path = members.path().to_owned();
    let (mut files, mut held_bytes, mut is_marked) = (Vec::new(), 0, false);
    while let Some(member) = members.next()? {
        let parts: Vec<&[u8]> = components(member.name).collect();
        let Some(first) = parts.first() else { continue };
        if !is_of_image(first) {
            return Ok(None);
        }
        is_marked |= member.kind != Kind::Directory && parts.len() == 1 && MARKERS.contains(first);
        let target = match member.kind {
            Kind::File if !member.is_sparse => None,
            Kind::Symlink => Some(member.link.to_vec()),
            Kind::Directory => continue,
            _ => {
                let what =
                    format!("\"{}\", a hard link or special file in an archive of an image,", shown(member.name));
                return Err(LayersError::Unsupported { path, what });
            }
        };
        let name = parts.join(&b'/');
        held_bytes += FILE_BYTES + name.len() + target.as_ref().map_or(0, Vec::len);
        if held_bytes > limits.held_bytes {
            let (what, limit) = ("names in an archive", limits.held_bytes as u64);
            return Err(LayersError::Limit { path, what, limit });
        }
        files.push(SavedFile { name, target, offset: member.data_offset, size_bytes: member.size_bytes });
    }
    if is_marked && members.compression() != Compression::None {
        let what = format!("an archive of an image in {}", members.compression());
        return Err(LayersError::Unsupported { path, what });
    }
    Ok(is_marked.then_some(files))
}

fn is_of_image(name: &[u8]) -> bool {
    let digits = name.strip_prefix(b"sha256:").unwrap_or(name);
    DOCUMENTS.contains(&name)
        || name == BLOBS
        || digits.get(..DIGEST_DIGITS).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}
