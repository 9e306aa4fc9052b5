//! One header block, as POSIX.1-1988 (ustar), version 7, GNU and star lay it out.
//!
//! | bytes | field | bytes | field |
//! |---|---|---|---|
//! | 0..100 | name | 156 | type |
//! | 100..108 | mode | 157..257 | link name |
//! | 108..116 | uid | 257..265 | magic and version |
//! | 116..124 | gid | 345..500 | name's prefix (ustar; 131 bytes in star) |
//! | 124..136 | size | 482 | more sparse blocks follow (GNU) |
//! | 136..148 | time | 508..512 | `tar\0` (star) |
//! | 148..156 | checksum | | |

use memchr::memchr;

use crate::error::shown;
use crate::window::Block;
use crate::Fault;

/// What a block of GNU's old sparse format says of blocks that follow it.
const SPARSE_GOES_ON: usize = 482;
const SPARSE_BLOCK_GOES_ON: usize = 504;

pub(crate) const TYPEFLAG: usize = 156;

/// What is kept of a header beside its names; numbers are read when they are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) typeflag: u8,
    pub(crate) sparse_goes_on: bool,
    uid: [u8; 8],
    gid: [u8; 8],
    size: [u8; 12],
}

impl Header {
    pub(crate) fn new(block: &Block) -> Self {
        let mut header = Self {
            typeflag: block[TYPEFLAG],
            sparse_goes_on: block[SPARSE_GOES_ON] != 0,
            uid: [0; 8],
            gid: [0; 8],
            size: [0; 12],
        };
        header.uid.copy_from_slice(&block[108..116]);
        header.gid.copy_from_slice(&block[116..124]);
        header.size.copy_from_slice(&block[124..136]);
        header
    }

    pub(crate) fn uid(&self) -> Result<u64, Fault> {
        number("uid", &self.uid)
    }

    pub(crate) fn gid(&self) -> Result<u64, Fault> {
        number("gid", &self.gid)
    }

    pub(crate) fn size_bytes(&self) -> Result<u64, Fault> {
        number("size", &self.size)
    }
}

pub(crate) fn is_zero(block: &Block) -> bool {
    block[0] == 0 && block.iter().all(|&byte| byte == 0)
}

/// The sum of all bytes with the checksum's own as blanks; old writers summed signed bytes, which readers take too.
pub(crate) fn check(block: &Block) -> Result<(), Fault> {
    let field = &block[148..156];
    let expected = number("checksum", field)?;
    // Sums of sixteen bytes are what vector instructions are good at.
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>();
    let got = block.chunks_exact(16).map(sum).sum::<u32>() - sum(field) + 8 * u32::from(b' ');
    if u64::from(got) == expected {
        return Ok(());
    }
    let high = block[..148].iter().chain(&block[156..]).filter(|&&byte| byte > 127).count() as i64;
    if i64::from(got) - 256 * high == expected as i64 {
        return Ok(());
    }
    Err(Fault::Checksum { got, expected })
}

/// The name, with its prefix where this layout has one.
pub(crate) fn read_name(block: &Block, name: &mut Vec<u8>) {
    name.clear();
    // GNU's magic is `ustar  \0`; it keeps times where ustar has the prefix.
    if block[345] != 0 && block[257..263] == *b"ustar\0" {
        let is_star = block[508..512] == *b"tar\0";
        name.extend_from_slice(text(if is_star { &block[345..476] } else { &block[345..500] }));
        name.push(b'/');
    }
    name.extend_from_slice(text(&block[..100]));
}

pub(crate) fn link(block: &Block) -> &[u8] {
    text(&block[157..257])
}

/// True where another block of the sparse map follows this one.
pub(crate) fn sparse_block_goes_on(block: &Block) -> bool {
    block[SPARSE_BLOCK_GOES_ON] != 0
}

/// A field up to its first NUL, or all of it.
fn text(field: &[u8]) -> &[u8] {
    &field[..memchr(0, field).unwrap_or(field.len())]
}

/// Octal digits ended by NUL or blank, or by the field; or base 256 where the first bit is set. A blank field is 0.
fn number(field: &'static str, bytes: &[u8]) -> Result<u64, Fault> {
    octal(bytes).ok_or_else(|| Fault::Number { field, got: shown(bytes) })
}

fn octal(bytes: &[u8]) -> Option<u64> {
    if bytes[0] & 0x80 != 0 {
        return base_256(bytes);
    }
    let mut rest = bytes;
    while let [b' ', after @ ..] = rest {
        rest = after;
    }
    let mut value = 0u64;
    let mut digits = 0;
    // Twelve digits of three bits fit.
    while let [digit @ b'0'..=b'7', after @ ..] = rest {
        value = value << 3 | u64::from(digit - b'0');
        digits += 1;
        rest = after;
    }
    match rest {
        // NULs before the digits are read as 0 by some and past by others.
        [0, ..] if digits == 0 && rest.iter().any(|&byte| byte != 0 && byte != b' ') => None,
        [] | [0 | b' ', ..] => Some(value),
        _ => None,
    }
}

/// Big-endian two's complement below the first bit; nothing here may be negative.
fn base_256(bytes: &[u8]) -> Option<u64> {
    if bytes[0] & 0x40 != 0 {
        return None;
    }
    bytes[1..]
        .iter()
        .try_fold(u64::from(bytes[0] & 0x3f), |value, &byte| (value >> 56 == 0).then_some(value << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::{number, Fault};

    #[test]
    fn numbers() {
        let cases: [(&[u8], Option<u64>); 20] = [
            (b"0001750\0", Some(1000)),
            (b"  1750 \0", Some(1000)),
            (b"1750\0\0\0\0", Some(1000)),
            (b"1750 xyz", Some(1000)),
            (b"77777777", Some(0o7777_7777)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"        ", Some(0)),
            (b"      \0 ", Some(0)),
            (b"\x80\0\0\0\xff\xff\xff\xfe", Some(4_294_967_294)),
            (b"\x80\0\0\0\0\0\x03\xe8", Some(1000)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xfe", None),
            (b"\xc0\0\0\0\0\0\0\0", None),
            (b"0001758\0", None),
            (b"-000001\0", None),
            (b"+000001\0", None),
            (b"0x00001\0", None),
            (b"\x001750\0\0\0", None),
            (b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", Some(u64::MAX)),
            (b"\x80\0\0\x01\0\0\0\0\0\0\0\0", None),
            (b"777777777777", Some(0o7777_7777_7777)),
        ];
        for (bytes, expected) in cases {
            let got = number("uid", bytes);
            assert_eq!(got.is_err(), expected.is_none(), "{}", bytes.escape_ascii());
            match (got, expected) {
                (Ok(got), Some(expected)) => assert_eq!(got, expected, "{}", bytes.escape_ascii()),
                (got, _) => assert!(matches!(got, Err(Fault::Number { .. })), "{}", bytes.escape_ascii()),
            }
        }
    }
}
