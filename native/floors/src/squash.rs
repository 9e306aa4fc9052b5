//! Unpacking the inode table and the directory table of a squashfs 4.0, block after block into one buffer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use liblzma::stream::{Action, Stream};

const SUPERBLOCK_BYTES: usize = 96;
const BLOCK_BYTES: usize = 8192;
const NOT_PACKED: u16 = 1 << 15;

/// Prints how many bytes the two tables unpack to.
pub(crate) fn tables(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let mut superblock = [0; SUPERBLOCK_BYTES];
    file.read_exact_at(&mut superblock, 0)?;
    let compressor = u16::from_le_bytes([superblock[20], superblock[21]]);
    let [ids, inodes, directories, fragments, exports] = [48, 64, 72, 80, 88].map(|at| u64_at(&superblock, at));
    // What follows the directories: the first block of the first table that is there.
    let mut end = pointer(&file, ids)?;
    for list in [fragments, exports].into_iter().filter(|&list| list > directories && list < ids) {
        end = end.min(pointer(&file, list)?);
    }
    let mut packed = vec![0; (end - inodes) as usize];
    file.read_exact_at(&mut packed, inodes)?;
    let mut unpack = decoder(compressor)?;
    let (mut rest, mut unpacked, mut buffer) = (packed.as_slice(), 0, vec![0; BLOCK_BYTES]);
    while let [low, high, after @ ..] = rest {
        let header = u16::from_le_bytes([*low, *high]);
        let (block, next) = after.split_at(usize::from(header & !NOT_PACKED));
        unpacked += if header & NOT_PACKED == 0 { unpack(block, &mut buffer)? } else { block.len() };
        rest = next;
    }
    Ok(unpacked.to_string())
}

type Unpack = Box<dyn FnMut(&[u8], &mut [u8]) -> io::Result<usize>>;

fn decoder(compressor: u16) -> io::Result<Unpack> {
    Ok(match compressor {
        1 => {
            let mut decoder = libdeflater::Decompressor::new();
            Box::new(move |packed, buffer| decoder.zlib_decompress(packed, buffer).map_err(io::Error::other))
        }
        4 => Box::new(|packed, buffer| {
            let mut stream = Stream::new_stream_decoder(u64::MAX, 0)?;
            stream.process(packed, buffer, Action::Finish)?;
            Ok(stream.total_out() as usize)
        }),
        6 => {
            let mut decoder = zstd::bulk::Decompressor::new()?;
            Box::new(move |packed, buffer| decoder.decompress_to_buffer(packed, buffer))
        }
        _ => return Err(io::ErrorKind::Unsupported.into()),
    })
}

/// The first of a list of block starts.
fn pointer(file: &File, list: u64) -> io::Result<u64> {
    let mut raw = [0; 8];
    file.read_exact_at(&mut raw, list)?;
    Ok(u64::from_le_bytes(raw))
}

fn u64_at(raw: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| raw[at + index]))
}
