//! The content hash against its published vectors, and the refusals.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{task, write};
use platoon_digest::{hash_task, sha256_file, DigestError, CONTENT_HASH_RULE};

#[derive(serde::Deserialize)]
struct Vectors {
    rule: String,
    vectors: Vec<Vector>,
}

#[derive(serde::Deserialize)]
struct Vector {
    name: String,
    directories: Vec<String>,
    files: BTreeMap<String, String>,
    links: BTreeMap<String, String>,
    order: Vec<String>,
    digest: String,
}

#[test]
fn published_vectors() {
    let vectors: Vectors = serde_json::from_str(include_str!("../../vectors.json")).expect("vectors parse");
    assert_eq!(vectors.rule, CONTENT_HASH_RULE);
    for vector in vectors.vectors {
        let root = tempfile::tempdir().expect("directory");
        for path in &vector.directories {
            fs::create_dir_all(root.path().join(path)).expect("directory");
        }
        for (path, text) in &vector.files {
            write(root.path(), path, text);
        }
        for (path, target) in &vector.links {
            fs::create_dir_all(root.path().join(path).parent().expect("has a parent")).expect("directory");
            symlink(target, root.path().join(path)).expect("link");
        }
        let hashed = hash_task(root.path(), 1).expect("hashes");
        let order: Vec<_> = hashed.files.iter().map(|file| file.path.clone()).collect();
        assert_eq!(order, vector.order, "{}", vector.name);
        assert_eq!(hashed.digest(), vector.digest, "{}", vector.name);
    }
}

#[test]
fn a_link_out_of_the_task_is_refused_by_name() {
    for target in ["/etc/passwd", "../../etc/passwd", "../environment/../../x", "/nowhere"] {
        let root = task();
        fs::create_dir(root.path().join("environment")).expect("directory");
        symlink(target, root.path().join("tests/out")).expect("link");
        let error = hash_task(root.path(), 1).expect_err("refused");
        assert!(matches!(error, DigestError::EscapingLink { .. }), "{target}: {error}");
        assert!(error.to_string().contains("tests/out"), "{error}");
    }
}

#[test]
fn an_ignored_link_is_not_followed() {
    let root = task();
    let plain = hash_task(root.path(), 1).expect("hashes");
    symlink("/etc/passwd", root.path().join("tests/out~")).expect("link");
    assert_eq!(hash_task(root.path(), 1).expect("hashes"), plain);
}

#[test]
fn links_that_name_no_file_do_not_enter() {
    let root = task();
    let plain = hash_task(root.path(), 1).expect("hashes");
    for (name, target) in [("loop", "loop"), ("gone", "../gone/x"), ("slash", "test.sh/"), ("up", ".."), ("dir", ".")] {
        symlink(target, root.path().join("tests").join(name)).expect("link");
    }
    let fifo = std::process::Command::new("mkfifo").arg(root.path().join("tests/fifo")).status().expect("mkfifo");
    assert!(fifo.success());
    assert_eq!(hash_task(root.path(), 1).expect("hashes"), plain);
}

#[test]
fn a_chain_of_links_inside_the_task_is_followed() {
    let root = task();
    write(root.path(), "environment/a/f", "in\n");
    symlink("../environment/a", root.path().join("tests/d")).expect("link");
    symlink("d/../a/f", root.path().join("tests/chain")).expect("link");
    let hashed = hash_task(root.path(), 1).expect("hashes");
    let chain = hashed.files.iter().find(|file| file.path == "tests/chain").expect("entered");
    assert_eq!(chain.size_bytes, 3);
    assert!(!hashed.files.iter().any(|file| file.path.starts_with("tests/d/")));
}

#[test]
fn other_refusals_name_their_path() {
    let root = task();
    symlink("tests", root.path().join("environment")).expect("link");
    assert!(matches!(hash_task(root.path(), 1), Err(DigestError::LinkedDirectory { .. })));

    let root = task();
    fs::write(root.path().join("tests").join(std::ffi::OsStr::from_bytes(b"\xff")), "").expect("file");
    assert!(matches!(hash_task(root.path(), 1), Err(DigestError::NameNotUtf8 { .. })));

    let root = task();
    fs::write(root.path().join(".gitignore"), b"ok\n\xff").expect("file");
    assert!(matches!(hash_task(root.path(), 1), Err(DigestError::TextNotUtf8 { offset: 3, .. })));

    assert!(matches!(hash_task(&root.path().join("absent"), 1), Err(DigestError::Io { .. })));
    assert!(matches!(sha256_file(root.path()), Err(DigestError::NotAFile { .. })));
}

#[test]
fn a_tree_without_end_is_refused() {
    let root = task();
    let deep = "d/".repeat(300);
    fs::create_dir_all(root.path().join("tests").join(deep)).expect("directories");
    assert!(matches!(hash_task(root.path(), 1), Err(DigestError::TooDeep { .. })));
}

/// Wide enough that the work is shared, with a directory larger than one stretch, and large files among the small.
#[test]
fn threads_make_no_difference() {
    let root = task();
    for index in 0..900 {
        write(root.path(), &format!("environment/d{}/f{index}", index % 7), format!("{index}").repeat(index));
    }
    for index in 0..600 {
        write(root.path(), &format!("tests/flat/f{index}"), "x");
    }
    for size in [32_767, 32_768, 32_769, 262_143, 262_144, 262_145, 700_000] {
        write(root.path(), &format!("tests/large/{size}"), "y".repeat(size));
    }
    let hashed = hash_task(root.path(), 1).expect("hashes");
    assert_eq!(hashed.files.len(), 2 + 900 + 600 + 7);
    assert!(hashed.files.is_sorted_by(|left, right| left.path < right.path));
    for file in &hashed.files {
        assert_eq!(sha256_file(&root.path().join(&file.path)).expect("hashes"), (file.sha256, file.size_bytes));
    }
    for threads in [2, 3, 8] {
        assert_eq!(hash_task(root.path(), threads).expect("hashes"), hashed);
    }
    // Of several errors it is always the first.
    for name in ["environment/d3/x", "tests/flat/x", "environment/d1/y"] {
        symlink("/etc/passwd", root.path().join(name)).expect("link");
    }
    for threads in [1, 2, 3, 8] {
        let error = hash_task(root.path(), threads).expect_err("refused");
        assert!(error.to_string().contains("environment/d1/y"), "{error}");
    }
}

/// A file and a directory that are links out of the task at every other moment: never are the bytes outside hashed.
#[test]
fn a_tree_that_changes_under_the_reader_gives_nothing_from_outside() {
    let place = tempfile::tempdir().expect("directory");
    let root = place.path().join("task");
    write(place.path(), "outside/f", "secret");
    write(&root, "tests/f", "inside");
    write(&root, "tests/d/f", "inside");
    let secret = sha256_file(&place.path().join("outside/f")).expect("hashes").0;
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            symlink("../../outside/f", root.join("link-f")).expect("link");
            symlink("../../outside", root.join("link-d")).expect("link");
            while !is_done.load(Ordering::Relaxed) {
                for name in ["f", "d"] {
                    let (there, link, aside) =
                        (root.join("tests").join(name), format!("link-{name}"), root.join("aside"));
                    fs::rename(&there, &aside).expect("renames");
                    fs::rename(root.join(&link), &there).expect("renames");
                    fs::rename(&there, root.join(&link)).expect("renames");
                    fs::rename(&aside, &there).expect("renames");
                }
            }
        });
        let leaked = (0..2000).find_map(|_| {
            let files = hash_task(&root, 1).map(|hashed| hashed.files).unwrap_or_default();
            files.into_iter().find(|file| file.sha256 == secret)
        });
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(leaked, None);
    });
}
