//! A part of an image, read some kilobytes at a time.

use crate::{Source, SquashError};

/// Packed blocks are small: several come with one call of the system.
const READ_BYTES: u64 = 16 * 1024;

pub(crate) struct Window<'a> {
    name: &'static str,
    image: Source<'a>,
    end: u64,
    /// What stands from `start` of the image.
    bytes: Vec<u8>,
    start: u64,
}

impl<'a> Window<'a> {
    /// Nothing is read yet. `name` stands in errors; what is read ahead ends at `end`.
    pub(crate) fn new(name: &'static str, image: Source<'a>, end: u64) -> Self {
        Self { name, image, end, bytes: Vec::new(), start: 0 }
    }

    /// `length` bytes of the image from `at`.
    pub(crate) fn bytes(&mut self, at: u64, length: usize) -> Result<&[u8], SquashError> {
        let is_held = at >= self.start && at + length as u64 <= self.start + self.bytes.len() as u64;
        if !is_held {
            self.fill(at, length)?;
        }
        let from = (at - self.start) as usize;
        Ok(&self.bytes[from..from + length])
    }

    fn fill(&mut self, at: u64, length: usize) -> Result<(), SquashError> {
        let size = READ_BYTES.min(self.end.saturating_sub(at)).max(length as u64);
        // Checked before anything is allocated, and known to fit afterwards.
        self.image.part(self.name, at, size)?;
        self.bytes.resize(size as usize, 0);
        self.start = at;
        let read = self.image.read(self.name, at, &mut self.bytes);
        if read.is_err() {
            self.bytes.clear();
        }
        read
    }
}
