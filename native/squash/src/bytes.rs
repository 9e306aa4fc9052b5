//! Little-endian fields at fixed places of a record whose length was checked.

pub(crate) fn u16_at(raw: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(field(raw, at))
}

pub(crate) fn u32_at(raw: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(raw, at))
}

pub(crate) fn u64_at(raw: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(field(raw, at))
}

/// Panics outside the record: places are constants of a format, inside the record by its definition.
fn field<const WIDTH: usize>(raw: &[u8], at: usize) -> [u8; WIDTH] {
    std::array::from_fn(|index| raw[at + index])
}
