//! A byte that sets the size of pieces, and a file: in pieces it has the digest that the rule gives it whole.
#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use platoon_digest::input_digest_of;

fuzz_target!(|data: &[u8]| {
    let Some((&size, bytes)) = data.split_first() else { return };
    let whole = input_digest_of(&normalised(bytes)[..]).expect("memory reads");
    let in_pieces = input_digest_of(Pieces { rest: bytes, size: usize::from(size) + 1 }).expect("memory reads");
    assert_eq!(in_pieces, whole);
});

struct Pieces<'a> {
    rest: &'a [u8],
    size: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.size.min(self.rest.len()).min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest = &self.rest[count..];
        Ok(count)
    }
}

/// What the rule makes of a file; it changes no more when the rule is applied to it again.
fn normalised(bytes: &[u8]) -> Vec<u8> {
    if bytes.iter().take(8000).any(|&byte| byte == 0) {
        return bytes.to_vec();
    }
    let mut out = Vec::new();
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for line in text.split(|byte| matches!(byte, b'\n' | b'\r')) {
        let end = line.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(0, |last| last + 1);
        if end > 0 {
            out.extend_from_slice(&line[..end]);
            out.push(b'\n');
        }
    }
    // A second byte order mark is text, and would be the first of the result; a NUL may have moved into the probe.
    if out.starts_with(b"\xef\xbb\xbf") || out.iter().take(8000).any(|&byte| byte == 0) {
        return bytes.to_vec();
    }
    out
}
