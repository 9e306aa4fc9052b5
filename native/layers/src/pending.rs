//! What the headers of one member say together: its own, extended ones before it, and the global records of the archive.

use crate::error::shown;
use crate::header::Header;
use crate::owners::MAX_ID;
use crate::pax::{Override, Records};
use crate::{Fault, Kind};

/// Extended headers that wait for their member.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) records: Option<Records>,
    pub(crate) name: Option<Vec<u8>>,
    pub(crate) link: Option<Vec<u8>>,
    /// Of the first header that describes the member.
    pub(crate) offset: Option<u64>,
}

/// What a member is, but for the names.
pub(crate) struct Found {
    pub(crate) kind: Kind,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size_bytes: u64,
    /// What the data fills: whole blocks.
    pub(crate) padded_bytes: u64,
    /// True where its data in the archive is not all that it holds.
    pub(crate) is_sparse: bool,
}

impl Pending {
    /// The member that `header` ends the description of. `name` and `link` hold what that header says, and then what counts.
    pub(crate) fn describe(
        self,
        header: &Header,
        global: &Records,
        name: &mut Vec<u8>,
        link: &mut Vec<u8>,
    ) -> Result<Found, Fault> {
        let mut records = self.records.unwrap_or_default();
        let typeflag = header.typeflag;
        let mut kind = kind_of(typeflag)?;
        let is_sparse = records.sparse.is_used()?;
        let given =
            if is_sparse && records.sparse.name.is_some() { records.sparse.name.take() } else { records.path.take() };
        if let Some(given) = one_of(given, self.name, "name")? {
            *name = given;
        }
        if matches!(kind, Kind::HardLink | Kind::Symlink) {
            if let Some(given) = one_of(records.link.take(), self.link, "link target")? {
                *link = given;
            }
            if link.is_empty() {
                return Err(Fault::Target { reason: "is empty" });
            }
        }
        if name.is_empty() {
            return Err(Fault::Name { reason: "is empty" });
        }
        let size_bytes = match records.size_bytes {
            Some(size_bytes) => size_bytes,
            None => header.size_bytes()?,
        };
        // Version 7 knows no directories but by the name.
        if kind == Kind::File && typeflag != b'S' && name.ends_with(b"/") {
            if size_bytes > 0 {
                return Err(Fault::Name { reason: "ends in /, and data follows" });
            }
            kind = Kind::Directory;
        }
        if is_sparse && kind != Kind::File {
            return Err(Fault::Sparse { got: "of no file".into() });
        }
        let has_data = kind.has_data() || typeflag == b'D';
        let size_bytes = if has_data { size_bytes } else { 0 };
        Ok(Found {
            kind,
            uid: id_of("uid", records.uid, global.uid, || header.uid())?,
            gid: id_of("gid", records.gid, global.gid, || header.gid())?,
            size_bytes,
            padded_bytes: padded(size_bytes)?,
            is_sparse: is_sparse || typeflag == b'S',
        })
    }
}

fn kind_of(typeflag: u8) -> Result<Kind, Fault> {
    match typeflag {
        // 7 is a contiguous file, S one of GNU's old sparse format, D a directory of a GNU incremental archive.
        0 | b'0' | b'7' | b'S' => Ok(Kind::File),
        b'1' => Ok(Kind::HardLink),
        b'2' => Ok(Kind::Symlink),
        b'3' => Ok(Kind::Character),
        b'4' => Ok(Kind::Block),
        b'5' | b'D' => Ok(Kind::Directory),
        b'6' => Ok(Kind::Fifo),
        _ => Err(Fault::Kind { got: shown(&[typeflag]) }),
    }
}

/// Readers differ on which of two headers counts; writers give one, or the same twice.
fn one_of(records: Option<Vec<u8>>, gnu: Option<Vec<u8>>, what: &'static str) -> Result<Option<Vec<u8>>, Fault> {
    match (records, gnu) {
        (Some(records), Some(gnu)) if records != gnu => Err(Fault::Twice { what }),
        (records, gnu) => Ok(records.or(gnu)),
    }
}

pub(crate) fn once<T>(previous: Option<T>, what: &'static str) -> Result<(), Fault> {
    previous.map_or(Ok(()), |_| Err(Fault::Twice { what }))
}

fn id_of(
    field: &'static str,
    local: Override,
    global: Override,
    header: impl Fn() -> Result<u64, Fault>,
) -> Result<u32, Fault> {
    match (local, global) {
        (Override::Id(id), _) | (Override::None, Override::Id(id)) => Ok(id),
        _ => match header()? {
            got if got > u64::from(MAX_ID) => Err(Fault::Above { field, got, limit: MAX_ID.into() }),
            got => Ok(got as u32),
        },
    }
}

pub(crate) fn until_nul(data: &[u8]) -> Vec<u8> {
    data.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
}

/// Data fills whole blocks.
pub(crate) fn padded(size_bytes: u64) -> Result<u64, Fault> {
    let fault = Fault::Above { field: "size", got: size_bytes, limit: i64::MAX as u64 };
    size_bytes.checked_next_multiple_of(512).filter(|&size_bytes| size_bytes <= i64::MAX as u64).ok_or(fault)
}
