//! A tree described line by line (`d PATH`, `f PATH TEXT`, `l PATH TARGET`): its hash takes in nothing from outside the tree.
#![no_main]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path};

use libfuzzer_sys::fuzz_target;
use platoon_digest::{hash_task, sha256_file};

const SECRET: &str = "of another task";

fuzz_target!(|data: &[u8]| {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("secret"), SECRET).expect("a file");
    let (secret, _) = sha256_file(&outside.path().join("secret")).expect("hashes");
    let root = outside.path().join("task");
    fs::create_dir(&root).expect("a directory");
    for line in input.lines().take(64) {
        make(&root, line);
    }
    let Ok(first) = hash_task(&root, 1) else { return };
    assert!(first.files.iter().all(|file| file.sha256 != secret || input.contains(SECRET)), "{first:?}");
    assert_eq!(hash_task(&root, 1).expect("hashes again"), first);
});

/// Lines that make no sense make nothing; no line writes outside the tree.
fn make(root: &Path, line: &str) {
    let mut words = line.splitn(3, ' ');
    let (Some(kind), Some(path)) = (words.next(), words.next()) else { return };
    let rest = words.next().unwrap_or_default();
    let relative = Path::new(path);
    if path.is_empty() || path.contains('\0') || !relative.components().all(|part| matches!(part, Component::Normal(_)))
    {
        return;
    }
    let Some(parent) = relative.parent() else { return };
    // A parent that is a link would lead the writer, not the hash, astray.
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
