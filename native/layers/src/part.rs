//! A stretch of a file, as if it were a file.

use std::io::{self, Read, Seek, SeekFrom};

pub(crate) struct Part<T> {
    input: T,
    start: u64,
    size_bytes: u64,
    position: u64,
}

impl<T: Read + Seek> Part<T> {
    pub(crate) fn new(mut input: T, start: u64, size_bytes: u64) -> io::Result<Self> {
        input.seek(SeekFrom::Start(start))?;
        Ok(Self { input, start, size_bytes, position: 0 })
    }
}

impl<T: Read> Read for Part<T> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size_bytes.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let wanted = left.min(target.len());
        let count = self.input.read(&mut target[..wanted])?;
        self.position += count as u64;
        Ok(count)
    }
}

impl<T: Seek> Seek for Part<T> {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Start(position) = place else { return Err(io::ErrorKind::Unsupported.into()) };
        self.input.seek(SeekFrom::Start(self.start.saturating_add(position)))?;
        self.position = position;
        Ok(position)
    }
}
