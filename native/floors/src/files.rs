//! Reading files: with SHA-256 and nothing else, and without it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

const READ_BYTES: usize = 256 * 1024;

/// SHA-256 of a file by a plain read loop.
pub(crate) fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; READ_BYTES];
    let mut digest = Sha256::new();
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            count => digest.update(&buffer[..count]),
        }
    }
}

/// Walks a tree, opens and reads each file to its end; prints how many files and bytes there were.
pub(crate) fn walk(path: &Path) -> io::Result<String> {
    let mut buffer = vec![0; READ_BYTES];
    let mut pending = vec![path.to_owned()];
    let (mut files, mut size_bytes) = (0u64, 0u64);
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                pending.push(entry.path());
                continue;
            }
            let mut file = File::open(entry.path())?;
            files += 1;
            loop {
                match file.read(&mut buffer)? {
                    0 => break,
                    count => size_bytes += count as u64,
                }
            }
        }
    }
    Ok(format!("{files} {size_bytes}"))
}
