//! The digest of a file as an input of a task: text counts by its words and lines, not by how an editor ended them.
//!
//! A file with a NUL among its first 8,000 bytes is binary and counts as it is. Of any other a byte order mark at the start, blanks at
//! the ends of lines and blank lines do not count, and CR, CR LF and LF are one line end; the last line has one in any case.

use std::io::{self, Read};
use std::path::Path;

use memchr::memchr2;
use sha2::{Digest, Sha256};

use crate::file::{open_following, Sha256Bytes, READ_BYTES};
use crate::tree::Root;
use crate::DigestError;

const PROBE_BYTES: usize = 8000;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Blanks that may yet turn out to end their line are kept up to here; beyond it the digest is kept instead.
const BLANKS_BYTES: usize = 4096;

/// The input digest of a regular file, links followed, read once and in bounded memory.
pub fn input_digest(path: &Path) -> Result<Sha256Bytes, DigestError> {
    let (file, _) = open_following(path)?;
    digest_of(file).map_err(|error| DigestError::io(path, error))
}

/// The input digests of files below a directory, by their relative paths. A link may lead to a file of the directory only.
pub fn input_digests(directory: &Path, paths: &[String]) -> Result<Vec<Sha256Bytes>, DigestError> {
    let root = Root::open(directory)?;
    let digest = |path: &String| {
        let file = root.open_named(path)?;
        digest_of(file).map_err(|error| DigestError::io(root.name(path), error))
    };
    paths.iter().map(digest).collect()
}

/// The input digest of what `source` gives, in pieces of any size.
pub fn digest_of(mut source: impl Read) -> io::Result<Sha256Bytes> {
    let mut buffer = vec![0; READ_BYTES];
    let mut filled = 0;
    while filled < PROBE_BYTES {
        match read_some(&mut source, &mut buffer[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    if memchr::memchr(0, &buffer[..filled.min(PROBE_BYTES)]).is_some() {
        let mut digest = Sha256::new();
        while filled > 0 {
            digest.update(&buffer[..filled]);
            filled = read_some(&mut source, &mut buffer)?;
        }
        return Ok(digest.finalize().into());
    }
    let mut text = Text::default();
    let start = if buffer[..filled].starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    text.take(&buffer[start..filled]);
    while filled > 0 {
        filled = read_some(&mut source, &mut buffer)?;
        text.take(&buffer[..filled]);
    }
    Ok(text.finish())
}

fn read_some(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    platoon_interrupt::check()?;
    loop {
        match source.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Text on its way into a digest.
#[derive(Default)]
struct Text {
    digest: Sha256,
    /// Counts, but is not in `digest` yet.
    waiting: Vec<u8>,
    /// Blanks that count if something follows them in their line.
    blanks: Vec<u8>,
    /// The digest with blanks that were too many to keep.
    with_blanks: Option<Sha256>,
    line_has_text: bool,
}

impl Text {
    fn take(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr2(b'\n', b'\r', bytes) {
            self.take_part(&bytes[..end]);
            // The LF of a CR LF ends a blank line, which does not count.
            self.end_line();
            bytes = &bytes[end + 1..];
        }
        self.take_part(bytes);
    }

    fn take_part(&mut self, part: &[u8]) {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let (text, blanks) = match part.iter().rposition(|byte| !is_blank(byte)) {
            Some(last) => part.split_at(last + 1),
            None => (&part[..0], part),
        };
        if !text.is_empty() {
            self.keep_blanks();
            self.waiting.extend_from_slice(text);
            self.line_has_text = true;
            self.pour(READ_BYTES);
        }
        self.blanks.extend_from_slice(blanks);
        if self.blanks.len() > BLANKS_BYTES {
            self.pour(0);
            self.with_blanks.get_or_insert_with(|| self.digest.clone()).update(&self.blanks);
            self.blanks.clear();
        }
    }

    /// The blanks seen last stand inside a line.
    fn keep_blanks(&mut self) {
        if let Some(digest) = self.with_blanks.take() {
            self.digest = digest;
        }
        self.waiting.append(&mut self.blanks);
    }

    fn end_line(&mut self) {
        self.with_blanks = None;
        self.blanks.clear();
        if std::mem::take(&mut self.line_has_text) {
            self.waiting.push(b'\n');
        }
    }

    /// Moves what waits into the digest, where it is more than `above` bytes.
    fn pour(&mut self, above: usize) {
        if self.waiting.len() > above {
            self.digest.update(&self.waiting);
            self.waiting.clear();
        }
    }

    fn finish(mut self) -> Sha256Bytes {
        self.end_line();
        self.pour(0);
        self.digest.finalize().into()
    }
}
