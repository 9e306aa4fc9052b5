//! A described tree: its hash takes in nothing from outside the tree, and is the same again.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use platoon_digest::{hash_task, sha256_file};
use platoon_fuzz::make_tree;

const SECRET: &str = "of another task";

fuzz_target!(|data: &[u8]| {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("secret"), SECRET).expect("a file");
    let (secret, _) = sha256_file(&outside.path().join("secret")).expect("hashes");
    let root = outside.path().join("task");
    fs::create_dir(&root).expect("a directory");
    make_tree(&root, input);
    let Ok(first) = hash_task(&root, 1) else { return };
    assert!(first.files.iter().all(|file| file.sha256 != secret || input.contains(SECRET)), "{first:?}");
    assert_eq!(hash_task(&root, 1).expect("hashes again"), first);
});
