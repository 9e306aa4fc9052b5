//! Reading a layer, and decompressing one: each with nothing done to what comes out.

use std::fs::{self, File};
use std::io::{self, Error, Read};
use std::path::Path;

use libdeflater::Decompressor;
use zlib_rs::{Inflate, InflateFlush, Status};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

const BUFFER_BYTES: usize = 256 * 1024;
const MEMBER_HEADER_BYTES: usize = 10;

/// Prints how many bytes a plain read loop gives.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut size_bytes = 0u64;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(size_bytes.to_string()),
            count => size_bytes += count as u64,
        }
    }
}

/// Prints what the only member of a gzip file unpacks to, by the decoder that is fastest where all of it fits into memory.
pub(crate) fn inflate_whole(path: &Path) -> io::Result<String> {
    let data = fs::read(path)?;
    let size = data.last_chunk().map_or(0, |size| u32::from_le_bytes(*size));
    let mut unpacked = vec![0; size as usize];
    let count = Decompressor::new().gzip_decompress(&data, &mut unpacked).map_err(Error::other)?;
    Ok(count.to_string())
}

/// The same through one buffer, by a decoder that streams. The header of the member is one without a name.
pub(crate) fn inflate_streamed(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut packed, mut unpacked) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    let mut inflate = Inflate::new(false, 15);
    let mut start = MEMBER_HEADER_BYTES;
    loop {
        let filled = file.read(&mut packed)?;
        while start < filled {
            let before = inflate.total_in();
            let status = inflate.decompress(&packed[start..filled], &mut unpacked, InflateFlush::NoFlush);
            start += (inflate.total_in() - before) as usize;
            if status.map_err(|error| Error::other(error.as_str()))? == Status::StreamEnd {
                return Ok(inflate.total_out().to_string());
            }
        }
        start = 0;
    }
}

/// Prints what the frames of a zstd file unpack to.
pub(crate) fn unzstd(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut packed, mut unpacked) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    let mut decoder = Decoder::new()?;
    let mut size_bytes = 0;
    loop {
        let filled = file.read(&mut packed)?;
        if filled == 0 {
            return Ok(size_bytes.to_string());
        }
        let mut input = InBuffer::around(&packed[..filled]);
        loop {
            let mut output = OutBuffer::around(&mut unpacked);
            decoder.run(&mut input, &mut output)?;
            size_bytes += output.pos();
            if input.pos() == filled && output.pos() < BUFFER_BYTES {
                break;
            }
        }
    }
}
