//! Two described trees, a form feed between them: a task, and what stands in the cache before it comes.
//!
//! What is published hashes as its source does and as its name says; nothing but it is left; nothing outside the cache is touched.
#![no_main]

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use platoon_digest::{hash_task, publish_task, Outcome, Publication};
use platoon_fuzz::make_tree;

fuzz_target!(|data: &[u8]| {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let (task, cache) = input.split_once('\x0c').unwrap_or((input, ""));
    let place = tempfile::tempdir().expect("a directory");
    let [source, base, outside] = ["source", "base", "outside"].map(|name| place.path().join(name));
    for directory in [&source, &base, &outside] {
        fs::create_dir(directory).expect("a directory");
    }
    make_tree(&source, task);
    make_tree(&base, cache);
    let publication = Publication {
        base: &base,
        tasks: Path::new("harbor/tasks"),
        staged: Path::new("harbor/.tmp/one"),
        programs: &HashSet::new(),
        expected: None,
        is_durable: false,
    };
    if let Ok(published) = publish_task(&source, publication) {
        assert_ne!(published.outcome, Outcome::Changed);
        assert_eq!(hash_task(&source, 1).expect("hashes"), published.task);
        let entry = base.join("harbor/tasks").join(published.task.digest());
        assert!(!entry.is_symlink());
        assert_eq!(hash_task(&entry, 1).expect("hashes"), published.task);
        assert!(!base.join("harbor/.tmp/one").exists());
    }
    assert_eq!(fs::read_dir(&outside).expect("a listing").count(), 0);
});
