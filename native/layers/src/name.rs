//! Names within an image: components joined by NUL, which no component holds. The root is the empty key.

pub(crate) const SEPARATOR: u8 = 0;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// What AUFS keeps for itself; runtimes do not unpack it.
const METADATA: &[u8] = b".wh..wh.";

/// What the last component of a name asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Special<'a> {
    /// Nothing: the member stands for itself.
    None,
    /// This name, and all below it, is gone from lower layers.
    Whiteout(&'a [u8]),
    /// All below the directory is gone from lower layers.
    Opaque,
}

/// Writes `name` as a key: without `.`, empty components and slashes at either end.
pub(crate) fn read_key(name: &[u8], key: &mut Vec<u8>) -> Result<(), &'static str> {
    key.clear();
    for component in components(name) {
        if component == b".." {
            return Err("climbs with ..");
        }
        if component.contains(&SEPARATOR) {
            return Err("holds a NUL");
        }
        push(key, component);
    }
    Ok(())
}

/// Components that say anything.
pub(crate) fn components(name: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    name.split(|&byte| byte == b'/').filter(|component| !component.is_empty() && *component != b".")
}

pub(crate) fn push(key: &mut Vec<u8>, component: &[u8]) {
    if !key.is_empty() {
        key.push(SEPARATOR);
    }
    key.extend_from_slice(component);
}

/// The key of the directory that holds `key`, and the last component.
pub(crate) fn split(key: &[u8]) -> (&[u8], &[u8]) {
    match key.iter().rposition(|&byte| byte == SEPARATOR) {
        Some(position) => (&key[..position], &key[position + 1..]),
        None => (b"", key),
    }
}

/// The components of a key.
pub(crate) fn components_of(key: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    key.split(|&byte| byte == SEPARATOR).filter(|component| !component.is_empty())
}

pub(crate) fn special(component: &[u8]) -> Result<Special<'_>, &'static str> {
    if component == OPAQUE {
        return Ok(Special::Opaque);
    }
    match component.strip_prefix(WHITEOUT) {
        Some(_) if component.starts_with(METADATA) => Ok(Special::None),
        Some(b"" | b"." | b"..") => Err("is a whiteout of no name"),
        Some(hidden) => Ok(Special::Whiteout(hidden)),
        None => Ok(Special::None),
    }
}

/// True for a name that `special` gives a meaning, or refuses.
pub(crate) fn is_whiteout(component: &[u8]) -> bool {
    !matches!(special(component), Ok(Special::None))
}

/// True for what AUFS kept for itself.
pub(crate) fn is_metadata(component: &[u8]) -> bool {
    component.starts_with(METADATA)
}
