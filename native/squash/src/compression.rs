//! The compressors of metadata blocks. Each block is whole and unpacks to at most 8 KiB, into a buffer that is there before.

use liblzma::stream::{Action, Status, Stream};

/// As much as one metadata block unpacks to.
pub(crate) const BLOCK_BYTES: usize = 8192;

/// A stream that asks for more was not made for blocks of 8 KiB. squashfs allows dictionaries up to 1 MiB.
const XZ_MEMORY_BYTES: u64 = 8 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compressor {
    Gzip,
    Xz,
    Lz4,
    Zstd,
}

impl Compressor {
    /// By the number in the superblock. The error says what the number stands for.
    pub(crate) fn from_number(number: u16) -> Result<Self, String> {
        match number {
            1 => Ok(Self::Gzip),
            2 => Err("the compressor lzma".into()),
            3 => Err("the compressor lzo".into()),
            4 => Ok(Self::Xz),
            5 => Ok(Self::Lz4),
            6 => Ok(Self::Zstd),
            _ => Err(format!("the unknown compressor {number}")),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// Unpacks one block after another with what it allocated once.
pub(crate) enum Decoder {
    Gzip(libdeflater::Decompressor),
    Xz,
    Lz4,
    Zstd(zstd::bulk::Decompressor<'static>),
}

impl Decoder {
    pub(crate) fn new(compressor: Compressor) -> std::io::Result<Self> {
        Ok(match compressor {
            Compressor::Gzip => Self::Gzip(libdeflater::Decompressor::new()),
            Compressor::Xz => Self::Xz,
            Compressor::Lz4 => Self::Lz4,
            Compressor::Zstd => Self::Zstd(zstd::bulk::Decompressor::new()?),
        })
    }

    /// The number of bytes that `packed` gave. The error is the library's reason.
    pub(crate) fn unpack(&mut self, packed: &[u8], output: &mut [u8]) -> Result<usize, String> {
        match self {
            Self::Gzip(decoder) => decoder.zlib_decompress(packed, output).map_err(|error| error.to_string()),
            Self::Xz => unpack_xz(packed, output),
            Self::Lz4 => lz4_flex::block::decompress_into(packed, output).map_err(|error| error.to_string()),
            Self::Zstd(decoder) => decoder.decompress_to_buffer(packed, output).map_err(|error| error.to_string()),
        }
    }
}

fn unpack_xz(packed: &[u8], output: &mut [u8]) -> Result<usize, String> {
    let mut stream = Stream::new_stream_decoder(XZ_MEMORY_BYTES, 0).map_err(|error| error.to_string())?;
    match stream.process(packed, output, Action::Finish) {
        Ok(Status::StreamEnd) => Ok(stream.total_out() as usize),
        Ok(_) => Err("the stream does not end with the block".into()),
        Err(error) => Err(error.to_string()),
    }
}
