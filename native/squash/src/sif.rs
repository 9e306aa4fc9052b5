//! SIF: one file that holds the objects of a container image, little-endian.
//!
//! | header | width | field |
//! |---|---|---|
//! | 0 | 32 | launch script |
//! | 32 | 10 | magic `SIF_MAGIC` and NUL |
//! | 42 | 3 | version, `01` and NUL |
//! | 45 | 3 | architecture |
//! | 48 | 16 | UUID |
//! | 64, 72 | 8 | times of making and change |
//! | 80, 88 | 8 | descriptors free and in all |
//! | 96, 104 | 8 | start and size of the descriptors |
//! | 112, 120 | 8 | start and size of the data |
//!
//! | descriptor | width | field |
//! |---|---|---|
//! | 0 | 4 | type, 0x4000 and 1 to 11 |
//! | 4 | 1 | used |
//! | 5, 9, 13 | 4 | id, group (with 0xf0000000), link |
//! | 17, 25, 33 | 8 | start of the data, its size, its size with padding |
//! | 41, 49 | 8 | times |
//! | 57, 65 | 8 | uid, gid |
//! | 73 | 128 | name |
//! | 201 | 384 | by type: a partition's file system (4), kind (4) and architecture (3); a blob's digest as text |

use crate::bytes::{u32_at, u64_at};
use crate::{Fault, Source, SquashError};

pub(crate) const MAGIC: &[u8; 10] = b"SIF_MAGIC\0";
pub(crate) const MAGIC_AT: u64 = 32;
const HEADER_BYTES: usize = 128;
const DESCRIPTOR_BYTES: usize = 585;
/// Images hold a handful; the largest OCI-SIF files a few hundred.
const DESCRIPTORS: u64 = 65_536;
const GROUP_MASK: u32 = 0xf000_0000;
const FIRST_KIND: u32 = 0x4000;
const NAME: std::ops::Range<usize> = 73..201;
const EXTRA: std::ops::Range<usize> = 201..DESCRIPTOR_BYTES;

/// What an object is, by the type of its descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectKind {
    Definition,
    Environment,
    Labels,
    Partition(Partition),
    Signature,
    Json,
    Generic,
    Cryptographic,
    Sbom,
    OciRootIndex,
    /// The digest as it is written, with its algorithm.
    OciBlob {
        digest: String,
    },
    Unknown(u32),
}

impl ObjectKind {
    /// The name that SIF tools print.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Definition => "Def.FILE",
            Self::Environment => "Env.Vars",
            Self::Labels => "JSON.Labels",
            Self::Partition(_) => "FS",
            Self::Signature => "Signature",
            Self::Json => "JSON.Generic",
            Self::Generic => "Generic",
            Self::Cryptographic => "Cryptographic Message",
            Self::Sbom => "SBOM",
            Self::OciRootIndex => "OCI.RootIndex",
            Self::OciBlob { .. } => "OCI.Blob",
            Self::Unknown(_) => "Unknown",
        }
    }
}

/// A file system among the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    pub file_system: FileSystem,
    pub role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    Squashfs,
    Ext3,
    Immutable,
    Raw,
    EncryptedSquashfs,
    Unknown(u32),
}

impl FileSystem {
    pub fn name(self) -> &'static str {
        match self {
            Self::Squashfs => "squashfs",
            Self::Ext3 => "ext3",
            Self::Immutable => "immutable",
            Self::Raw => "raw",
            Self::EncryptedSquashfs => "encrypted squashfs",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// What a partition is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    System,
    Primary,
    Data,
    Overlay,
    Unknown(u32),
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Primary => "primary system",
            Self::Data => "data",
            Self::Overlay => "overlay",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// One used descriptor. `offset` and `size_bytes` lie inside the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub id: u32,
    /// Objects that belong together; 0 for none.
    pub group: u32,
    pub offset: u64,
    pub size_bytes: u64,
    pub name: Vec<u8>,
    pub kind: ObjectKind,
}

/// Whether a SIF begins here.
pub fn is_sif(image: &Source) -> Result<bool, SquashError> {
    if image.size_bytes() < MAGIC_AT + MAGIC.len() as u64 {
        return Ok(false);
    }
    let mut magic = [0; MAGIC.len()];
    image.read("SIF header", MAGIC_AT, &mut magic)?;
    Ok(&magic == MAGIC)
}

/// The objects of a SIF in the order of their descriptors. No object is read.
pub fn objects(image: &Source) -> Result<Vec<Object>, SquashError> {
    let mut header = [0; HEADER_BYTES];
    image.read("SIF header", 0, &mut header)?;
    let path = image.path();
    if header[32..42] != *MAGIC {
        let got = header[32..42].into();
        return Err(SquashError::Magic { path: path.into(), expected: "a SIF", offset: image.in_file(MAGIC_AT), got });
    }
    if header[42..45] != *b"01\0" {
        let what = format!("SIF version {:?} (only 01 is)", text(&header[42..45]).escape_ascii().to_string());
        return Err(SquashError::Unsupported { path: path.into(), what });
    }
    let [total, start] = [88, 96].map(|at| u64_at(&header, at));
    if total > DESCRIPTORS {
        let rule = "no image has more than 65536";
        let fault = Fault::Value { field: "the number of descriptors", got: total, rule };
        return Err(SquashError::Damaged {
            path: path.into(),
            part: "SIF header".into(),
            offset: image.in_file(88),
            fault,
        });
    }
    let table = image.part("SIF descriptors", start, total * DESCRIPTOR_BYTES as u64)?.bytes("SIF descriptors")?;
    let mut objects = Vec::new();
    for raw in table.chunks_exact(DESCRIPTOR_BYTES).filter(|raw| raw[4] != 0) {
        objects.push(object(image, raw)?);
    }
    Ok(objects)
}

fn object(image: &Source, raw: &[u8]) -> Result<Object, SquashError> {
    let (id, group) = (u32_at(raw, 5), u32_at(raw, 9));
    let (offset, size_bytes) = (u64_at(raw, 17), u64_at(raw, 25));
    image.part(&format!("SIF object {id}"), offset, size_bytes)?;
    Ok(Object {
        id,
        group: group & !GROUP_MASK,
        offset,
        size_bytes,
        name: text(&raw[NAME]).into(),
        kind: kind(u32_at(raw, 0), &raw[EXTRA]),
    })
}

fn kind(number: u32, extra: &[u8]) -> ObjectKind {
    match number.wrapping_sub(FIRST_KIND) {
        1 => ObjectKind::Definition,
        2 => ObjectKind::Environment,
        3 => ObjectKind::Labels,
        4 => ObjectKind::Partition(Partition {
            file_system: match u32_at(extra, 0) {
                1 => FileSystem::Squashfs,
                2 => FileSystem::Ext3,
                3 => FileSystem::Immutable,
                4 => FileSystem::Raw,
                5 => FileSystem::EncryptedSquashfs,
                other => FileSystem::Unknown(other),
            },
            role: match u32_at(extra, 4) {
                1 => Role::System,
                2 => Role::Primary,
                3 => Role::Data,
                4 => Role::Overlay,
                other => Role::Unknown(other),
            },
        }),
        5 => ObjectKind::Signature,
        6 => ObjectKind::Json,
        7 => ObjectKind::Generic,
        8 => ObjectKind::Cryptographic,
        9 => ObjectKind::Sbom,
        10 => ObjectKind::OciRootIndex,
        11 => ObjectKind::OciBlob { digest: String::from_utf8_lossy(text(extra)).into_owned() },
        _ => ObjectKind::Unknown(number),
    }
}

/// What stands before the first NUL.
fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}
