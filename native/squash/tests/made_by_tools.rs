//! Images that mksquashfs made, one a compressor and one unpacked (the seeds of the fuzz target): whole, cut short, and changed.

mod support;

use std::path::Path;

use proptest::prelude::*;
use support::{count, lines, read};

const NAMES: [&str; 5] = ["gzip", "lz4", "plain", "xz", "zstd"];

/// Small enough that whatever a changed byte asks for is told soon.
const LIMITS: platoon_squash::Limits =
    platoon_squash::Limits { depth: 64, path_bytes: 4096, entries: 10_000, reported_bytes: 1 << 20, cached_blocks: 16 };

fn image(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/squash_owners");
    std::fs::read(folder.join(name).with_extension("sqfs")).expect("a seed")
}

#[test]
fn u53_the_same_tree_in_each_compressor() {
    let numbered = (0..12).map(|index| format!("{} 100 /home/nb/file{index:02}", 1000 + index % 3));
    let mut expected: Vec<String> = numbered.collect();
    expected.extend(
        [
            "0 6 /run/disk",
            "0 6 /run/null",
            "1000 100 /home/nb",
            "1000 100 /home/nb/file03.link",
            "33 33 /home/nb/l -> m",
            "33 33 /srv",
            "4294967294 4294967294 /home/nb/a\\nb",
            "5 5 /run/fifo",
        ]
        .map(String::from),
    );
    expected.sort();
    for name in NAMES {
        let mut found = lines(&image(name));
        found.sort();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn every_truncation_is_an_error() {
    for name in NAMES {
        let whole = image(name);
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "{name}: {length} of {} bytes", whole.len());
        }
    }
}

#[test]
fn every_byte_may_be_any_other() {
    for name in NAMES {
        let mut bytes = image(name);
        for at in 0..bytes.len() {
            let kept = bytes[at];
            for value in [0, 1, 0x7f, 0x80, 0xff, kept ^ 1, kept ^ 0x80] {
                bytes[at] = value;
                let _ = count(&bytes, &LIMITS);
            }
            bytes[at] = kept;
        }
    }
}

proptest! {
    #[test]
    fn several_changed_bytes_give_owners_or_an_error(
        name in prop::sample::select(NAMES.as_slice()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = image(name);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = count(&bytes, &LIMITS);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = count(&bytes, &LIMITS);
        let _ = count(&[b"hsqs".as_slice(), &bytes].concat(), &LIMITS);
    }
}
