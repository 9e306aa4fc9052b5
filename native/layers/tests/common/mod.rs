//! Tars written header by header, so that tests say what stands in them.

// Each test file uses some of it.
#![allow(dead_code)]

use std::io::Write;
use std::path::PathBuf;

use platoon_layers::{Fault, Layer, LayersError, Limits, Members, Rootfs};

pub const BLOCK: usize = 512;

/// A tar in the making.
#[derive(Clone, Default)]
pub struct Tar {
    pub bytes: Vec<u8>,
}

/// A header that is not closed by its checksum yet.
pub struct Header(pub [u8; BLOCK]);

impl Header {
    pub fn new(name: &[u8], typeflag: u8, uid: u64, gid: u64, size_bytes: usize) -> Self {
        let mut header = Self([0; BLOCK]);
        header.set(0, &name[..name.len().min(100)]);
        header.set(100, b"0000644\0");
        header.set(108, &octal(uid, 8));
        header.set(116, &octal(gid, 8));
        header.set(124, &octal(size_bytes as u64, 12));
        header.set(136, b"00000000000\0");
        header.0[156] = typeflag;
        header.set(257, b"ustar\x0000");
        header
    }

    pub fn set(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub fn gnu(mut self) -> Self {
        self.set(257, b"ustar  \0");
        self
    }

    pub fn close(mut self) -> [u8; BLOCK] {
        self.set(148, b"        ");
        let sum: u32 = self.0.iter().map(|&byte| u32::from(byte)).sum();
        self.set(148, format!("{sum:06o}\0 ").as_bytes());
        self.0
    }
}

/// Octal where it fits, else base 256.
pub fn octal(value: u64, width: usize) -> Vec<u8> {
    let text = format!("{value:0digits$o}\0", digits = width - 1);
    if text.len() == width {
        return text.into_bytes();
    }
    let mut bytes = vec![0; width];
    bytes[width - 8..].copy_from_slice(&value.to_be_bytes());
    bytes[0] |= 0x80;
    bytes
}

pub fn pax(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut data = Vec::new();
    for (key, value) in records {
        let rest = [b" ", key.as_bytes(), b"=", value, b"\n"].concat();
        let mut length = rest.len() + 1;
        while length != rest.len() + length.to_string().len() {
            length = rest.len() + length.to_string().len();
        }
        data.extend_from_slice(length.to_string().as_bytes());
        data.extend_from_slice(&rest);
    }
    data
}

impl Tar {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn raw(mut self, header: Header, data: &[u8]) -> Self {
        self.bytes.extend_from_slice(&header.close());
        self.bytes.extend_from_slice(data);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
        self
    }

    pub fn member(self, name: &str, typeflag: u8, uid: u64, gid: u64) -> Self {
        self.raw(Header::new(name.as_bytes(), typeflag, uid, gid, 0), b"")
    }

    pub fn file(self, name: &str, uid: u64, gid: u64) -> Self {
        self.raw(Header::new(name.as_bytes(), b'0', uid, gid, 5), b"data\n")
    }

    pub fn dir(self, name: &str, uid: u64, gid: u64) -> Self {
        self.member(name, b'5', uid, gid)
    }

    pub fn link(self, typeflag: u8, name: &str, target: &str, uid: u64, gid: u64) -> Self {
        let mut header = Header::new(name.as_bytes(), typeflag, uid, gid, 0);
        header.set(157, target.as_bytes());
        self.raw(header, b"")
    }

    pub fn symlink(self, name: &str, target: &str) -> Self {
        self.link(b'2', name, target, 0, 0)
    }

    pub fn hard(self, name: &str, target: &str) -> Self {
        self.link(b'1', name, target, 0, 0)
    }

    /// Extended records for the next member, or for all that follow.
    pub fn records(self, typeflag: u8, records: &[(&str, &[u8])]) -> Self {
        let data = pax(records);
        self.raw(Header::new(b"PaxHeaders/x", typeflag, 0, 0, data.len()), &data)
    }

    /// A name (`L`) or link target (`K`) for the next member.
    pub fn long(self, typeflag: u8, text: &[u8]) -> Self {
        let data = [text, b"\0"].concat();
        self.raw(Header::new(b"././@LongLink", typeflag, 0, 0, data.len()).gnu(), &data)
    }

    pub fn end(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(&[0; 2 * BLOCK]);
        self.bytes
    }
}

/// The manifest of layers in memory, lowest first.
pub fn manifest(layers: &[&[u8]]) -> Result<String, LayersError> {
    let limits = Limits::default();
    let mut rootfs = Rootfs::new(&limits);
    for (index, bytes) in layers.iter().enumerate() {
        let layer = Layer::file(format!("layer{index}"));
        rootfs.apply(&mut Members::of_bytes(&layer, bytes, &limits)?)?;
    }
    let bytes = rootfs.into_manifest()?.bytes;
    let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
    Ok(text.strip_prefix("# platoon-owners-v1\n").expect("begins with its rule").to_owned())
}

/// The manifest of layers that are well.
pub fn owners(layers: &[Tar]) -> String {
    let layers: Vec<_> = layers.iter().map(|layer| layer.clone().end()).collect();
    let layers: Vec<_> = layers.iter().map(Vec::as_slice).collect();
    manifest(&layers).expect("layers are well")
}

/// The fault of one layer, with the offset it is told at.
pub fn fault(bytes: &[u8]) -> (u64, Fault) {
    match manifest(&[bytes]).expect_err("refused") {
        LayersError::Entry { offset, fault, .. } | LayersError::Tar { offset, fault, .. } => (offset, fault),
        error => panic!("another kind of error: {error}"),
    }
}

pub fn gzip(parts: &[&[u8]]) -> Vec<u8> {
    parts.iter().flat_map(|part| gzip_member(part)).collect()
}

/// One member in stored blocks: what is tested is the frame around them.
pub fn gzip_member(data: &[u8]) -> Vec<u8> {
    let mut member = b"\x1f\x8b\x08\0\0\0\0\0\0\xff".to_vec();
    let mut blocks = data.chunks(0xffff).peekable();
    if blocks.peek().is_none() {
        member.extend_from_slice(b"\x01\0\0\xff\xff");
    }
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        member.push(u8::from(blocks.peek().is_none()));
        member.extend_from_slice(&length.to_le_bytes());
        member.extend_from_slice(&(!length).to_le_bytes());
        member.extend_from_slice(block);
    }
    member.extend_from_slice(&crc32fast::hash(data).to_le_bytes());
    member.extend_from_slice(&(data.len() as u32).to_le_bytes());
    member
}

pub fn zstd(parts: &[&[u8]]) -> Vec<u8> {
    parts.iter().flat_map(|part| zstd::bulk::compress(part, 1).expect("compresses")).collect()
}

pub fn written(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("layer");
    std::fs::File::create(&path).and_then(|mut file| file.write_all(bytes)).expect("file");
    (directory, path)
}

/// What this process used at most so far.
pub fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("kibibytes")
}
