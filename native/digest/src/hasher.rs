//! Hashes one file after another: small ones are gathered and hashed together, large ones stream through the same buffer.

use std::fs::File;
use std::io::{self, ErrorKind};

use rustix::fs::FileType;
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::file::{Sha256Bytes, READ_BYTES};
use crate::lanes::{sha256_each, Message, PADDING};

/// A file of more bytes is hashed alone.
const SMALL_BYTES: usize = 32 * 1024;

/// Hashes the files it is given. A file goes by the number that `add` got with it.
pub(crate) struct Hasher {
    buffer: Vec<u8>,
    gathered: Vec<Message>,
    numbers: Vec<usize>,
}

impl Hasher {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; READ_BYTES], gathered: Vec::new(), numbers: Vec::new() }
    }

    /// Reads a file that was listed as a regular one to its end; how many bytes it has. Its digest goes to `give` now or later, at
    /// the latest from `finish`.
    pub(crate) fn add(
        &mut self,
        file: File,
        number: usize,
        give: &mut dyn FnMut(usize, Sha256Bytes),
    ) -> io::Result<u64> {
        let mut start = self.filled();
        if start + SMALL_BYTES + PADDING > self.buffer.len() {
            self.finish(give);
            start = 0;
        }
        let mut size_bytes = 0;
        while size_bytes < SMALL_BYTES {
            match read_at(&file, &mut self.buffer[start + size_bytes..start + SMALL_BYTES], size_bytes as u64)? {
                0 => {
                    self.gathered.push(Message { start, size_bytes });
                    self.numbers.push(number);
                    return Ok(size_bytes as u64);
                }
                count => size_bytes += count,
            }
        }
        let mut digest = Sha256::new();
        digest.update(&self.buffer[start..start + size_bytes]);
        self.finish(give);
        let size_bytes = self.stream(&file, size_bytes as u64, &mut digest)?;
        give(number, digest.finalize().into());
        Ok(size_bytes)
    }

    /// Gives the digests that are still owed.
    pub(crate) fn finish(&mut self, give: &mut dyn FnMut(usize, Sha256Bytes)) {
        let digests = sha256_each(&mut self.buffer, &self.gathered);
        self.numbers.iter().zip(digests).for_each(|(&number, digest)| give(number, digest));
        self.gathered.clear();
        self.numbers.clear();
    }

    fn filled(&self) -> usize {
        self.gathered.last().map_or(0, |message| message.padded_end())
    }

    /// What a small file leaves: the rest of a large one. Only here could a device that took the file's place go on for ever.
    fn stream(&mut self, file: &File, mut size_bytes: u64, digest: &mut Sha256) -> io::Result<u64> {
        if FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode) != FileType::RegularFile {
            return Err(ErrorKind::InvalidInput.into());
        }
        loop {
            platoon_interrupt::check()?;
            match read_at(file, &mut self.buffer, size_bytes)? {
                0 => return Ok(size_bytes),
                count => {
                    digest.update(&self.buffer[..count]);
                    size_bytes += count as u64;
                }
            }
        }
    }
}

/// Reads at a place of its own: the position of an open file is locked where a process has several threads.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match rustix::io::pread(file, &mut *buffer, offset) {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}
