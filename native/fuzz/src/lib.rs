//! What targets share: trees described line by line (`d PATH`, `f PATH TEXT`, `l PATH TARGET`), and headers of tars that add up.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path};

/// Of a tar.
pub const BLOCK: usize = 512;

/// Headers, known by their magic, with the checksum that they should have: the search would not find it.
pub fn with_checksums(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    for block in data.chunks_exact_mut(BLOCK) {
        if block[257..262] == *b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
    data
}

/// Makes the tree that `text` describes below `root`. Lines that make no sense make nothing; no line writes outside the tree.
pub fn make_tree(root: &Path, text: &str) {
    text.lines().take(64).for_each(|line| make_entry(root, line));
}

fn make_entry(root: &Path, line: &str) {
    let mut words = line.splitn(3, ' ');
    let (Some(kind), Some(path)) = (words.next(), words.next()) else { return };
    let rest = words.next().unwrap_or_default();
    let relative = Path::new(path);
    if path.is_empty() || path.contains('\0') || !relative.components().all(|part| matches!(part, Component::Normal(_)))
    {
        return;
    }
    let Some(parent) = relative.parent() else { return };
    // A parent that is a link would lead the writer, not the reader, astray.
    if parent.ancestors().any(|folder| root.join(folder).is_symlink() && folder != Path::new("")) {
        return;
    }
    let place = root.join(relative);
    let _ = fs::create_dir_all(root.join(parent));
    let _ = match kind {
        "d" => fs::create_dir(&place),
        "f" if !place.is_symlink() => fs::write(&place, rest),
        "l" => symlink(rest, &place),
        _ => Ok(()),
    };
}
