//! Input digests against their vectors, and in pieces of any size; build contexts.

use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};

use crate::input_rule::{normalised, Pieces};
use crate::support::write;
use platoon_digest::{
    hex, input_digest, input_digest_of, input_digests, named_tree_files, tree_files, tree_names, DigestError, Leads,
};
use proptest::prelude::*;
use rustix::fs::{FileType, Mode};

#[derive(serde::Deserialize)]
struct Vector {
    bytes: Vec<u8>,
    digest: String,
}

#[test]
fn published_vectors() {
    let vectors: Vec<Vector> = serde_json::from_str(include_str!("../../input_vectors.json")).expect("vectors parse");
    let root = tempfile::tempdir().expect("directory");
    for (index, vector) in vectors.iter().enumerate() {
        let name = format!("f{index}");
        write(root.path(), &name, &vector.bytes);
        let expected = vector.digest.as_str();
        assert_eq!(hex(&input_digest(&root.path().join(&name)).expect("reads")), expected, "{:?}", vector.bytes);
        assert_eq!(hex(&input_digests(root.path(), &[name]).expect("reads")[0]), expected);
    }
}

fn plain(bytes: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().expect("file");
    fs::write(file.path(), normalised(bytes)).expect("file");
    hex(&platoon_digest::sha256_file(file.path()).expect("reads").0)
}

proptest! {
    #[test]
    fn pieces_make_no_difference(bytes in "[ab \t\r\n\u{feff}]{0,60}", size in 1usize..9) {
        let bytes = bytes.as_bytes();
        let digest = input_digest_of(Pieces { rest: bytes, size }).expect("reads");
        prop_assert_eq!(hex(&digest), plain(bytes));
    }
}

#[test]
fn long_runs_of_blanks_take_no_memory_and_count_where_they_should() {
    let blanks = vec![b' '; 10_000];
    for (head, tail) in [("a", "b"), ("a", "\nb"), ("", "b"), ("a", ""), ("a\n", "\n")] {
        for repeats in [1, 3] {
            let bytes = [head.as_bytes(), &blanks.repeat(repeats), tail.as_bytes()].concat();
            for size in [77, 100_000] {
                let digest = input_digest_of(Pieces { rest: &bytes, size }).expect("reads");
                assert_eq!(hex(&digest), plain(&bytes), "{head:?} {tail:?} {repeats} {size}");
            }
        }
    }
}

#[test]
fn a_nul_behind_the_probe_leaves_text_text() {
    let mut bytes = vec![b'x'; 8000];
    bytes.extend_from_slice(b"\0 \n");
    assert_eq!(hex(&input_digest_of(&bytes[..]).expect("reads")), plain(&bytes));
    bytes[7999] = 0;
    assert_eq!(hex(&input_digest_of(&bytes[..]).expect("reads")), plain(&bytes));
}

#[test]
fn a_context_lists_files_with_their_execute_bits() {
    let root = tempfile::tempdir().expect("directory");
    write(root.path(), "install.sh", "#!/bin/sh\ntrue\n");
    write(root.path(), "input/d.csv", "c\n");
    write(root.path(), ".hidden", "");
    fs::set_permissions(root.path().join("install.sh"), fs::Permissions::from_mode(0o755)).expect("mode");
    symlink("input/d.csv", root.path().join("link")).expect("link");
    symlink("input", root.path().join("directory")).expect("link");
    for threads in [1, 2] {
        let files = tree_files(root.path(), threads).expect("reads");
        let rows: Vec<_> = files.iter().map(|row| (row.file.path.as_str(), row.is_executable)).collect();
        assert_eq!(rows, [(".hidden", false), ("input/d.csv", false), ("install.sh", true), ("link", false)]);
        assert_eq!(hex(&files[2].file.sha256), "9ab8fabc8c72bfa0416414631e26bd71b01f9dfae98dcf4656b1e2d78307876a");
        let named = ["link", "install.sh", "link"].map(String::from);
        assert_eq!(named_tree_files(root.path(), &named, threads).expect("reads"), files[2..]);
    }
}

#[test]
fn names_of_a_context_say_where_they_lead() {
    let root = tempfile::tempdir().expect("directory");
    for path in ["context/a/f", "context/a-b", "context/a/sub/g", "shared"] {
        write(root.path(), path, "x");
    }
    let outside = root.path().join("shared");
    let links = [
        ("up", "../../shared"),
        ("sub/out", "../../../../shared"),
        ("absolute", outside.to_str().expect("UTF-8")),
        ("directory", "sub"),
        ("root", ".."),
        ("gone", "nothing"),
        ("loop", "loop"),
        ("null", "f/x"),
    ];
    for (name, target) in links {
        symlink(target, root.path().join("context/a").join(name)).expect("link");
    }
    rustix::fs::mknodat(rustix::fs::CWD, root.path().join("context/fifo"), FileType::Fifo, Mode::RUSR, 0)
        .expect("FIFO");
    let expected = [
        ("a-b", Leads::ToFile),
        ("a/absolute", Leads::Outside),
        ("a/directory", Leads::ToDirectory),
        ("a/f", Leads::ToFile),
        ("a/gone", Leads::Nowhere),
        ("a/loop", Leads::Nowhere),
        ("a/null", Leads::Nowhere),
        ("a/root", Leads::ToDirectory),
        ("a/sub/g", Leads::ToFile),
        ("a/sub/out", Leads::Outside),
        ("a/up", Leads::ToFile),
    ]
    .map(|(path, leads)| (path.to_owned(), leads));
    for threads in [1, 2] {
        assert_eq!(tree_names(root.path(), "context".as_ref(), threads).expect("reads"), expected);
    }
    let below = tree_names(root.path(), "context/a/sub".as_ref(), 1).expect("reads");
    assert_eq!(below, [("g".to_owned(), Leads::ToFile), ("out".to_owned(), Leads::Outside)]);
    assert_eq!(tree_names(root.path(), "".as_ref(), 1).expect("reads").len(), expected.len() + 1);
    for below in ["shared", "absent", "..", "context/a/absolute"] {
        let error = tree_names(root.path(), below.as_ref(), 1).expect_err("refused").to_string();
        assert_eq!(error, format!("{}: Not a directory (os error 20)", root.path().join(below).display()));
    }
}

#[test]
fn of_several_names_that_are_refused_the_first_is_told() {
    let root = tempfile::tempdir().expect("directory");
    let paths: Vec<String> = (0..40).map(|number| format!("f{number:02}")).collect();
    paths.iter().filter(|path| !path.ends_with('7')).for_each(|path| write(root.path(), path, path));
    for threads in [1, 2, 3] {
        let error = named_tree_files(root.path(), &paths, threads).expect_err("refused").to_string();
        assert_eq!(error, format!("{}: not a regular file", root.path().join("f07").display()));
        let there: Vec<String> = paths.iter().filter(|path| !path.ends_with('7')).cloned().collect();
        let files = named_tree_files(root.path(), &there, threads).expect("reads");
        assert_eq!(files.iter().map(|row| row.file.path.clone()).collect::<Vec<_>>(), there);
    }
}

#[test]
fn named_files_are_files_of_the_context() {
    let root = tempfile::tempdir().expect("directory");
    write(root.path(), "inside/f", "x");
    write(root.path(), "outside", "x");
    symlink("../outside", root.path().join("inside/out")).expect("link");
    let context = root.path().join("inside");
    for path in ["", "/f", "../outside", "../inside/f", "f/../../inside/f", "./..", "f\0"] {
        let error = named_tree_files(&context, &[path.to_owned()], 2).expect_err("refused");
        let expected = format!("{}: {path:?} is no relative path to something within it", context.display());
        assert_eq!(error.to_string(), expected);
        assert!(input_digests(&context, &[path.to_owned()]).is_err());
    }
    for (path, is_escape) in [("g", false), (".", false), ("g/..", false), ("out", true)] {
        let error = named_tree_files(&context, &[path.to_owned()], 2).expect_err("refused");
        assert_eq!(matches!(error, DigestError::EscapingLink { .. }), is_escape, "{path:?}: {error}");
        assert_eq!(matches!(error, DigestError::NotAFile { .. }), !is_escape, "{path:?}: {error}");
        assert!(input_digests(&context, &[path.to_owned()]).is_err());
    }
    assert!(matches!(tree_files(&context, 1), Err(DigestError::EscapingLink { .. })));
}
