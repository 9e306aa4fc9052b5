//! Memory does not grow with the members of a layer. Alone in its file, since it reads what the process used at most.

mod common;

use std::fs::File;
use std::io::Write;

use common::{peak_kib, Tar};
use platoon_layers::{layer_manifest, Layer, Limits, Members};

const MEMBERS: usize = 200_000;
const ALLOWED_KIB: u64 = 24 * 1024;

#[test]
fn test_u44_memory_is_independent_of_members() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("layer.tar.zst");
    let mut encoder = zstd::Encoder::new(File::create(&path).expect("file"), 1).expect("encoder");
    for index in 0..MEMBERS {
        let name = format!("usr/share/some/directory{}/with/a/name/of/usual/length{index}", index / 50);
        // One in a thousand is not root's, and so remembered.
        let uid = u64::from(index % 1000 == 0);
        let tar = Tar::new()
            .records(b'x', &[("mtime", b"1.5")])
            .raw(common::Header::new(name.as_bytes(), b'0', uid, 0, 0), b"");
        encoder.write_all(&tar.bytes).expect("writes");
    }
    encoder.write_all(&[0; 1024]).expect("writes");
    encoder.finish().expect("finishes");

    let before = peak_kib();
    let layer = Layer::file(&path);
    assert_eq!(layer_manifest(&[layer], &Limits::default()).expect("reads").count, MEMBERS / 1000);
    let grown = peak_kib() - before;
    assert!(grown < ALLOWED_KIB, "{grown} KiB");
}

#[test]
fn what_is_remembered_is_bounded() {
    let (lower, upper) =
        (Tar::new().file("a", 1, 1).file("b", 1, 1).end(), Tar::new().symlink("c", &"t".repeat(90)).end());
    let limits = Limits { held_bytes: 400, ..Limits::default() };
    let mut rootfs = platoon_layers::Rootfs::new(&limits);
    rootfs.apply(&mut Members::of_bytes(&Layer::file("lower"), &lower, &limits).expect("opens")).expect("fits");
    let error = rootfs
        .apply(&mut Members::of_bytes(&Layer::file("upper"), &upper, &limits).expect("opens"))
        .expect_err("refused");
    assert_eq!(error.to_string(), "upper: more than 400 bytes of memory for paths that are not root's");
    let limits = Limits { path_bytes: 20, ..Limits::default() };
    for tar in [
        Tar::new().file(&"n/".repeat(10), 1, 1),
        Tar::new().symlink("l", "twelve/bytes").file("l/twelve/bytes/f", 1, 1),
    ] {
        let bytes = tar.end();
        let mut rootfs = platoon_layers::Rootfs::new(&limits);
        let error = rootfs.apply(&mut Members::of_bytes(&Layer::file("long"), &bytes, &limits).expect("opens"));
        assert!(error.expect_err("refused").to_string().contains("the name "), "too long");
    }
}

#[test]
fn what_is_reported_is_bounded() {
    // A short name through a link stands for a long path.
    let start = Tar::new().symlink("l", "a/long/way/down/there");
    let tar = (0..20).fold(start, |tar, at| tar.file(&format!("l/{at:02}"), 1, 1)).end();
    let written = 20 * "/a/long/way/down/there/00".len() as u64;
    for (reported_bytes, is_refused) in [(written - 1, true), (written, false)] {
        let limits = Limits { reported_bytes, ..Limits::default() };
        let mut rootfs = platoon_layers::Rootfs::new(&limits);
        rootfs.apply(&mut Members::of_bytes(&Layer::file("far"), &tar, &limits).expect("opens")).expect("is well");
        match rootfs.into_manifest() {
            Ok(manifest) => assert!(!is_refused && manifest.count == 20),
            Err(error) => {
                assert!(is_refused);
                let expected = format!("far: more than {reported_bytes} bytes of paths to report that are not root's");
                assert_eq!(error.to_string(), expected);
            }
        }
    }
}
