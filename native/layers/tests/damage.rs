//! Whatever the bytes: an error or a manifest, never a panic, never without end.

mod common;

use common::{gzip, manifest, zstd, Header, Tar};
use proptest::prelude::*;

/// A layer with something of everything.
fn varied() -> Tar {
    let mut sparse = Header::new(b"sparse", b'S', 1, 1, 5).gnu();
    sparse.set(482, b"\x01");
    let mut tar = Tar::new()
        .records(b'g', &[("gid", b"7")])
        .dir("d/", 1, 2)
        .records(b'x', &[("path", b"d/f"), ("uid", b"3000000"), ("GNU.sparse.map", b"0,5")])
        .file("f", 1, 1)
        .long(b'L', &[b'n'; 150])
        .long(b'K', b"d/f")
        .link(b'1', "hard", "cut", 0, 0)
        .symlink("s", "../d")
        .file("s/.wh.f", 0, 0)
        .file("s/.wh..wh..opq", 0, 0)
        .raw(sparse, b"");
    tar.bytes.extend_from_slice(&[0; 512]);
    tar.bytes.extend_from_slice(&[b'x'; 512]);
    tar.file("last", 4, 4)
}

#[test]
fn truncated_at_every_byte() {
    let tar = varied().end();
    let whole = manifest(&[&tar]).expect("is well");
    for length in 0..tar.len() {
        let end = tar.len() - 1024;
        // Half of the end still says that there is one.
        if let Ok(found) = manifest(&[&tar[..length]]) {
            assert!(length == end + 512 && found == whole, "{length}");
        }
    }
    for stored in [gzip(&[&tar]), zstd(&[&tar])] {
        for length in 0..stored.len() {
            assert!(manifest(&[&stored[..length]]).is_err(), "{length}");
        }
    }
}

#[test]
fn flipped_at_every_byte() {
    let tar = varied().end();
    for stored in [tar.clone(), gzip(&[&tar]), zstd(&[&tar])] {
        for at in 0..stored.len() {
            for mask in [1, 0xff] {
                let mut damaged = stored.clone();
                damaged[at] ^= mask;
                let _ = manifest(&[&damaged]);
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Member(String, u8, u32, String),
    Records(Vec<(usize, Vec<u8>)>),
    Long(bool, Vec<u8>),
    Junk(Vec<u8>),
}

const KEYS: [&str; 9] = [
    "path",
    "linkpath",
    "size",
    "uid",
    "gid",
    "GNU.sparse.name",
    "GNU.sparse.major",
    "GNU.sparse.minor",
    "GNU.sparse.map",
];

fn step() -> impl Strategy<Value = Step> {
    let name = "(|/|\\./|\\.\\./)([abc]|\\.wh\\.[abc.]?|\\.wh\\.\\.wh\\.\\.opq)(/[abc]|/){0,3}";
    let value = prop_oneof![Just(b"0".to_vec()), Just(b"1".to_vec()), Just(b"a/b".to_vec()), any::<Vec<u8>>()];
    prop_oneof![
        8 => (name, prop::sample::select(b"0123567SDV".to_vec()), 0u32..4, "[abc/.]{0,6}")
            .prop_map(|(name, typeflag, id, link)| Step::Member(name, typeflag, id, link)),
        1 => prop::collection::vec((0..KEYS.len(), value), 0..4).prop_map(Step::Records),
        1 => (any::<bool>(), prop::collection::vec(any::<u8>(), 0..200)).prop_map(|(is_name, text)| Step::Long(is_name, text)),
        1 => prop::collection::vec(any::<u8>(), 0..600).prop_map(Step::Junk),
    ]
}

fn built(steps: &[Step]) -> Vec<u8> {
    let tar = steps.iter().fold(Tar::new(), |mut tar, step| match step {
        Step::Member(name, typeflag, id, link) => tar.link(*typeflag, name, link, u64::from(*id), u64::from(*id)),
        Step::Records(records) => {
            let records: Vec<_> = records.iter().map(|(key, value)| (KEYS[*key], value.as_slice())).collect();
            tar.records(b'x', &records)
        }
        Step::Long(is_name, text) => tar.long(if *is_name { b'L' } else { b'K' }, text),
        Step::Junk(bytes) => {
            tar.bytes.extend_from_slice(bytes);
            tar
        }
    });
    tar.end()
}

proptest! {
    #[test]
    fn no_layers_panic(lower in prop::collection::vec(step(), 0..12), upper in prop::collection::vec(step(), 0..12)) {
        let (lower, upper) = (built(&lower), built(&upper));
        let first = manifest(&[&lower, &upper]);
        if let Ok(text) = &first {
            // A manifest is sorted, and says each path once.
            let paths: Vec<&str> = text.lines().filter_map(|line| line.splitn(3, ' ').nth(2)).collect();
            prop_assert!(paths.windows(2).all(|pair| pair[0].chars().lt(pair[1].chars())), "{}", text);
        }
        // How a layer is stored changes nothing.
        let stored = manifest(&[&gzip(&[&lower]), &zstd(&[&upper])]);
        prop_assert_eq!(first.ok(), stored.ok());
    }
}
