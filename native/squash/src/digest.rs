//! SHA-256 as image manifests spell it.

use sha2::{Digest, Sha256};

use crate::{Fault, Source, SquashError};

const PREFIX: &str = "sha256:";
const HEX: &[u8; 16] = b"0123456789abcdef";
/// Read and hashed at a time.
const PIECE_BYTES: u64 = 256 * 1024;

pub(crate) fn is_sha256(digest: &str) -> bool {
    digest.strip_prefix(PREFIX).is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| HEX.contains(&byte)))
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    spelled(Sha256::new_with_prefix(bytes))
}

fn spelled(digest: Sha256) -> String {
    let nibbles = digest.finalize().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    PREFIX.chars().chain(nibbles.map(|nibble| HEX[usize::from(nibble)] as char)).collect()
}

impl Source<'_> {
    /// Holds all of the window against its size and digest, where they are given.
    pub fn verify(&self, size_bytes: Option<u64>, digest: Option<&str>) -> Result<(), SquashError> {
        if let Some(expected) = size_bytes.filter(|expected| *expected != self.size_bytes()) {
            return Err(self.is_other(format!("{} bytes", self.size_bytes()), format!("a file of {expected}")));
        }
        let Some(expected) = digest else { return Ok(()) };
        let got = self.sha256()?;
        if got == expected {
            Ok(())
        } else {
            Err(self.is_other(got, expected.to_owned()))
        }
    }

    fn sha256(&self) -> Result<String, SquashError> {
        let mut digest = Sha256::new();
        let mut piece = Vec::new();
        let mut offset = 0;
        while offset < self.size_bytes() {
            platoon_interrupt::check().map_err(|source| SquashError::Io { path: self.path().into(), source })?;
            piece.resize(PIECE_BYTES.min(self.size_bytes() - offset) as usize, 0);
            self.read("the image", offset, &mut piece)?;
            digest.update(&piece);
            offset += piece.len() as u64;
        }
        Ok(spelled(digest))
    }

    fn is_other(&self, got: String, expected: String) -> SquashError {
        let (path, part, offset) = (self.path().into(), "the image".into(), self.in_file(0));
        SquashError::Damaged { path, part, offset, fault: Fault::Text { got, expected } }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn all_of_a_window_is_held_against_its_digest() {
        for size_bytes in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, 2 * PIECE_BYTES + 7] {
            let bytes: Vec<u8> = (0..size_bytes + 3).map(|byte| (byte % 251) as u8).collect();
            let reader = &bytes[..];
            let whole = Source::new(&reader, Path::new("file"), size_bytes + 3);
            let window = whole.from(3).unwrap();
            let digest = sha256(&bytes[3..]);
            assert!(is_sha256(&digest));
            window.verify(Some(size_bytes), Some(&digest)).unwrap();
            window.verify(None, None).unwrap();
            let error = whole.verify(None, Some(&digest)).unwrap_err().to_string();
            assert!(error.ends_with(&format!(", where {digest} is expected")), "{error}");
            let error = window.verify(Some(size_bytes + 1), Some(&digest)).unwrap_err().to_string();
            let got = format!(
                "file: the image at byte 3: {size_bytes} bytes, where a file of {} is expected",
                size_bytes + 1
            );
            assert_eq!(error, got);
        }
    }
}
