//! Memory does not grow with the members of a layer. Alone in its file, since it reads what the process used at most.

mod common;

use std::fs::File;
use std::io::Write;

use common::Tar;
use platoon_layers::{layer_owners, Layer, Limits, Members};

const MEMBERS: usize = 200_000;
const ALLOWED_KIB: u64 = 24 * 1024;

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("kibibytes")
}

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
    assert_eq!(layer_owners(&[layer], &Limits::default()).expect("reads").len(), MEMBERS / 1000);
    let grown = peak_kib() - before;
    assert!(grown < ALLOWED_KIB, "{grown} KiB");
}

#[test]
fn what_is_remembered_is_bounded() {
    let (lower, upper) =
        (Tar::new().file("a", 1, 1).file("b", 1, 1).end(), Tar::new().symlink("c", &"t".repeat(90)).end());
    let limits = Limits { held_bytes: 200, ..Limits::default() };
    let mut rootfs = platoon_layers::Rootfs::new(&limits);
    rootfs.apply(&mut Members::of_bytes(&Layer::file("lower"), &lower, &limits).expect("opens")).expect("fits");
    let error = rootfs
        .apply(&mut Members::of_bytes(&Layer::file("upper"), &upper, &limits).expect("opens"))
        .expect_err("refused");
    assert_eq!(error.to_string(), "upper: more than 200 bytes of paths that are not root's");
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
