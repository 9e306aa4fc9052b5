//! What is counted of a tree is what it takes. Alone in its file, since it reads what the process used at most.

mod common;

use common::{peak_kib, Tar};
use platoon_layers::{Layer, Limits, Members};

#[test]
fn what_is_remembered_takes_what_is_counted() {
    // Directories with one entry each cost the most beside what is in their names.
    let limits = Limits { held_bytes: 32 << 20, ..Limits::default() };
    let mut tar = Vec::new();
    for index in 0..200 {
        let name = format!("{index}/{}f", "a/".repeat(1000));
        tar.extend_from_slice(&Tar::new().long(b'L', name.as_bytes()).file("f", 1, 1).bytes);
    }
    let before = peak_kib();
    let mut rootfs = platoon_layers::Rootfs::new(&limits);
    let error = rootfs.apply(&mut Members::of_bytes(&Layer::file("deep"), &tar, &limits).expect("opens"));
    let grown = peak_kib() - before;
    assert!(error.expect_err("refused").to_string().contains("memory for paths"), "a limit is reached");
    assert!((16 * 1024..40 * 1024).contains(&grown), "{grown} KiB where 32 MiB are allowed");
}
