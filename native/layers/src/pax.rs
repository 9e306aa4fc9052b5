//! Extended headers: PAX records (POSIX.1-2001, `LENGTH KEY=VALUE\n`), and what of them says who owns what.

use crate::error::shown;
use crate::owners::MAX_ID;
use crate::Fault;

/// Records that override fields of a header. An empty value takes a record back.
#[derive(Debug, Default, Clone)]
pub(crate) struct Records {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link: Option<Vec<u8>>,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) uid: Override,
    pub(crate) gid: Override,
    pub(crate) sparse: Sparse,
}

/// What a record says of an id: nothing, that the header counts (which a global record cannot change), or a number.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Override {
    #[default]
    None,
    Header,
    Id(u32),
}

/// GNU's sparse records: 0.0 (`size`, `numblocks`, pairs), 0.1 (`map`, `name`), 1.0 (`major`, `minor`, `name`, `realsize`).
#[derive(Debug, Default, Clone)]
pub(crate) struct Sparse {
    pub(crate) name: Option<Vec<u8>>,
    major: Option<Vec<u8>>,
    minor: Option<Vec<u8>>,
    has_map: bool,
    has_size: bool,
}

impl Sparse {
    /// True for a sparse member; Fault where the records are of no version that is known.
    pub(crate) fn is_used(&self) -> Result<bool, Fault> {
        let version = (self.major.as_deref(), self.minor.as_deref());
        let is_old = matches!(version, (None, None) | (Some(b"0"), Some(b"0" | b"1")));
        if version == (Some(b"1"), Some(b"0")) || is_old && (self.has_map || self.has_size) {
            return Ok(true);
        }
        if version == (None, None) && self.name.is_none() {
            return Ok(false);
        }
        let part = |value: Option<&[u8]>| value.map_or("?".into(), shown);
        Err(Fault::Sparse { got: format!("{}.{}", part(version.0), part(version.1)) })
    }
}

impl Records {
    /// Reads the data of an extended header over what is known.
    pub(crate) fn read(&mut self, mut data: &[u8], is_global: bool) -> Result<(), Fault> {
        // Some writers pad with NULs within the size.
        while !data.is_empty() && data.iter().any(|&byte| byte != 0) {
            let (key, value, rest) = next_record(data)?;
            self.set(key, value, is_global)?;
            data = rest;
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8], is_global: bool) -> Result<(), Fault> {
        let fault = |reason| Fault::Key { key: shown(key), reason };
        let is_sparse = key.starts_with(b"GNU.sparse.");
        if is_global && (is_sparse || matches!(key, b"path" | b"linkpath" | b"size")) {
            return Err(fault("cannot be the same for every member"));
        }
        let text = || match value {
            [] => Ok(None),
            _ if value.contains(&0) => Err(fault("holds a NUL")),
            _ => Ok(Some(value.to_vec())),
        };
        let id = || match number(value).map_err(fault)? {
            None => Ok(Override::Header),
            Some(id) if id > u64::from(MAX_ID) => Err(fault("is above 4294967294, the largest id")),
            Some(id) => Ok(Override::Id(id as u32)),
        };
        match key {
            b"path" => self.path = text()?,
            b"linkpath" => self.link = text()?,
            b"size" => self.size_bytes = number(value).map_err(fault)?,
            b"uid" => self.uid = id()?,
            b"gid" => self.gid = id()?,
            b"GNU.sparse.name" => self.sparse.name = text()?,
            b"GNU.sparse.major" => self.sparse.major = text()?,
            b"GNU.sparse.minor" => self.sparse.minor = text()?,
            b"GNU.sparse.map" => self.sparse.has_map = true,
            b"GNU.sparse.size" => self.sparse.has_size = true,
            _ => {}
        }
        Ok(())
    }
}

/// A key, its value, and what follows the record.
type Record<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// The first record.
fn next_record(data: &[u8]) -> Result<Record<'_>, Fault> {
    let fault = |reason| Fault::Record { reason };
    let digits = data.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let length = number(&data[..digits]).ok().flatten().and_then(|length| usize::try_from(length).ok());
    let length = length.ok_or(fault("begins with no length"))?;
    if data.get(digits) != Some(&b' ') {
        return Err(fault("has no blank after its length"));
    }
    let record = data.get(digits + 1..length).ok_or(fault("has a length that does not fit"))?;
    let Some((b'\n', record)) = record.split_last() else {
        return Err(fault("does not end in a line feed"));
    };
    let equals = record.iter().position(|&byte| byte == b'=').ok_or(fault("has no ="))?;
    if equals == 0 {
        return Err(fault("has no key"));
    }
    Ok((&record[..equals], &record[equals + 1..], &data[length..]))
}

/// Decimal digits; `None` for no text at all.
fn number(text: &[u8]) -> Result<Option<u64>, &'static str> {
    if text.is_empty() {
        return Ok(None);
    }
    let value = text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    });
    value.map(Some).ok_or("is no number of 64 bits")
}
