//! The rule of input digests on a whole file at once, and a reader that gives its bytes in pieces. The fuzz target takes this file too.

use std::io::Read;

/// Gives its bytes a few at a time.
pub struct Pieces<'a> {
    pub rest: &'a [u8],
    pub size: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.size.min(self.rest.len()).min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest = &self.rest[count..];
        Ok(count)
    }
}

/// The bytes that are hashed.
pub fn normalised(bytes: &[u8]) -> Vec<u8> {
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
    out
}
