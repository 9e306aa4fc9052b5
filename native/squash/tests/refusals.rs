//! Images that break a rule: each gives the error of that rule, at its place.

mod support;

use platoon_squash::{Fault, Limits, SquashError};
use support::{count, read, Image, InodeAt, BLOCK, SUPERBLOCK};

/// An image of `/a` (a file) and `/d` (an empty directory).
fn small() -> Vec<u8> {
    let mut image = Image::default();
    let file = image.inode(2, 1, 1);
    let directory = image.basic_directory(1, &[]);
    let root = image.directory(0, &[(b"a", 2, file), (b"d", 1, directory)]);
    image.finish(root)
}

fn refusal(bytes: &[u8]) -> String {
    read(bytes).expect_err("refused").to_string()
}

fn fault(bytes: &[u8]) -> Fault {
    match read(bytes).expect_err("refused") {
        SquashError::Damaged { fault, .. } => fault,
        other => panic!("another error: {other}"),
    }
}

/// `small` with a field of its superblock set.
fn with_field<const WIDTH: usize>(at: usize, value: [u8; WIDTH]) -> Vec<u8> {
    let mut bytes = small();
    bytes[at..at + WIDTH].copy_from_slice(&value);
    bytes
}

#[test]
fn every_truncation_is_an_error() {
    let whole = small();
    assert_eq!(read(&whole).expect("reads").len(), 2);
    for length in 0..whole.len() {
        read(&whole[..length]).expect_err("refused");
    }
}

#[test]
fn u47_a_huge_id_count_is_refused_by_the_size_of_the_file() {
    let mut bytes = with_field(26, u16::MAX.to_le_bytes());
    bytes.truncate(120);
    for (at, value) in [(32, 0u64), (40, 120), (48, 119), (64, 96), (72, 100)] {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    let text = refusal(&bytes);
    assert_eq!(text, "made.sqfs: id table: 256 bytes at byte 119 do not fit before byte 120, where the image ends");
}

#[test]
fn u53_what_is_not_read_is_refused_by_name() {
    for (number, name) in [(2, "lzma"), (3, "lzo"), (7, "the unknown compressor 7"), (0, "the unknown compressor 0")] {
        let text = refusal(&with_field(20, u16::to_le_bytes(number)));
        assert!(text.contains(name) && text.ends_with("is not read here"), "{text}");
    }
    for version in [(3u16, 1u16), (4, 1), (1024, 0)] {
        let raw = [version.0.to_le_bytes(), version.1.to_le_bytes()].concat();
        let text = refusal(&with_field(28, [raw[0], raw[1], raw[2], raw[3]]));
        assert!(text.contains(&format!("squashfs {}.{}", version.0, version.1)), "{text}");
    }
    assert!(refusal(&with_field(0, *b"sqsh")).contains("big-endian squashfs"));
    assert_eq!(
        refusal(&with_field(0, *b"PK\x03\x04")),
        r#"made.sqfs: a squashfs is expected at byte 0, where "PK\\x03\\x04" stands"#
    );
}

#[test]
fn fields_of_the_superblock() {
    let far = u64::MAX.to_le_bytes();
    let cases: [(&str, Vec<u8>); 9] = [
        ("superblock at byte 4: the inode count is 0", with_field(4, [0; 4])),
        ("superblock at byte 26: the id count is 0", with_field(26, [0; 2])),
        ("superblock at byte 32: the root's inode block", with_field(32, far)),
        ("bytes used", with_field(40, far)),
        ("superblock at byte 48: the start of the id table", with_field(48, far)),
        ("superblock at byte 64: the start of the inode table is 0", with_field(64, [0; 8])),
        ("superblock at byte 64: the start of the inode table", with_field(64, far)),
        ("superblock at byte 72: the start of the directory table", with_field(72, far)),
        ("superblock at byte 64: the start of the inode table", with_field(72, [0; 8])),
    ];
    for (expected, bytes) in cases {
        let text = refusal(&bytes);
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn names_that_are_none() {
    for (name, rule) in [
        (b".".as_slice(), "is not one of an entry"),
        (b"..", "is not one of an entry"),
        (b"a/b", "holds a slash or a NUL"),
        (b"/", "holds a slash or a NUL"),
        (b"a\0", "holds a slash or a NUL"),
    ] {
        let mut image = Image::default();
        let file = image.inode(2, 1, 1);
        let root = image.directory(0, &[(name, 2, file)]);
        let found = fault(&image.finish(root));
        assert!(matches!(&found, Fault::Name { rule: broken, .. } if *broken == rule), "{name:?}: {found}");
    }
    // The length is stored less 1: an empty name and one of 64 KiB are the same, too long.
    let mut image = Image::default();
    let file = image.inode(2, 1, 1);
    let root = image.directory(0, &[(b"", 2, file)]);
    assert!(matches!(fault(&image.finish(root)), Fault::Value { field: "the length of a name", got: 65_536, .. }));
}

#[test]
fn names_that_are_not_in_order() {
    for (second, expected) in
        [(b"b".as_slice(), "stands twice"), (b"a", "does not come after"), (b"B", "does not come after")]
    {
        let mut image = Image::default();
        let file = image.inode(2, 1, 1);
        let inside = image.directory(0, &[(b"z", 2, file)]);
        let root = image.directory(0, &[(b"b", 1, inside), (second, 2, file)]);
        let text = refusal(&image.finish(root));
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("directory table, unpacked byte "), "{text}");
    }
}

#[test]
fn directories_that_are_listed_twice() {
    let mut image = Image::default();
    let itself = InodeAt(image.inodes.len());
    let root = image.directory(0, &[(b"again", 1, itself)]);
    assert_eq!(root, itself);
    assert!(
        refusal(&image.finish(root)).contains("entry /again, its inode (unpacked byte 0) at byte 96: this directory")
    );

    let mut image = Image::default();
    let shared = image.directory(0, &[]);
    let root = image.directory(0, &[(b"one", 1, shared), (b"two", 1, shared)]);
    assert_eq!(fault(&image.finish(root)), Fault::ListedBefore);
}

#[test]
fn listings_that_share_bytes() {
    let mut image = Image::default();
    let file = image.inode(2, 1, 1);
    let first = image.directory(0, &[(b"aaaaaaaaaaaaaaaa", 2, file)]);
    let size = image.listings.len();
    let mut entries = vec![first];
    entries.extend((0..400).map(|_| image.directory_at(0, 0, size)));
    let names: Vec<String> = (0..entries.len()).map(|index| format!("{index:04}")).collect();
    let entries: Vec<_> = names.iter().zip(entries).map(|(name, inode)| (name.as_bytes(), 1, inode)).collect();
    let root = image.directory(0, &entries);
    assert_eq!(fault(&image.finish(root)), Fault::Overlap);
}

#[test]
fn listings_of_a_wrong_size() {
    for change in [-1i64, 1, 5, 100, 1 << 31] {
        let mut image = Image::default();
        let file = image.inode(2, 1, 1);
        image.directory(0, &[(b"a", 2, file)]);
        let size = (image.listings.len() as i64 + change) as usize;
        let root = image.directory_at(0, 0, size);
        assert!(matches!(fault(&image.finish(root)), Fault::Cut { .. } | Fault::Value { .. }), "{change}");
    }
}

#[test]
fn references_to_nothing() {
    let beyond = |at: usize| {
        let mut image = Image::default();
        image.inodes.extend(vec![0; 100]);
        let root = image.directory(0, &[(b"a", 2, InodeAt(at))]);
        fault(&image.finish(root))
    };
    assert!(matches!(beyond(5 * BLOCK), Fault::NoBlock));
    assert!(matches!(beyond(BLOCK - 1), Fault::PastBlock { got: 8191, length: 140 }));
    assert!(matches!(beyond(139), Fault::Cut { what: "inode table", of: "an inode" }));
    assert!(matches!(beyond(0), Fault::Value { field: "the inode's type", got: 0, .. }));

    let mut image = Image::default();
    let root = image.directory_at(0, 3 * BLOCK + 1, 20);
    assert!(matches!(fault(&image.finish(root)), Fault::NoBlock));
}

#[test]
fn inodes_that_are_not_what_they_should_be() {
    let mut image = Image::default();
    let file = image.inode(2, 1, 1);
    let root = image.directory(0, &[(b"a", 3, file)]);
    assert_eq!(fault(&image.finish(root)), Fault::TypeDiffers { entry: 3, inode: 2 });
    assert_eq!(fault(&image.finish(file)), Fault::TypeDiffers { entry: 1, inode: 2 });

    for (uid_index, gid_index, index) in [(3, 0, 3), (0, 7, 7)] {
        let mut image = Image::default();
        let file = image.inode(2, uid_index, gid_index);
        let root = image.directory(0, &[(b"a", 2, file)]);
        let bytes = image.finish(root);
        assert_eq!(fault(&bytes), Fault::UnknownId { index, count: 3 });
        assert!(refusal(&bytes).contains("entry /a, its inode (unpacked byte 0) at byte 96"), "{}", refusal(&bytes));
    }
}

#[test]
fn blocks_that_do_not_unpack() {
    let mut bytes = small();
    for (compressor, name) in [(1u16, "gzip"), (4, "xz"), (5, "lz4"), (6, "zstd")] {
        bytes[20..22].copy_from_slice(&compressor.to_le_bytes());
        // The inode table's block is declared packed, which it is not.
        bytes[SUPERBLOCK + 1] &= 0x7f;
        let text = refusal(&bytes);
        assert!(text.contains(&format!("inode table at byte 96: does not unpack with {name}: ")), "{text}");
    }
    for size in [0u16, 8193, 0x7fff] {
        bytes[SUPERBLOCK..SUPERBLOCK + 2].copy_from_slice(&(size | 0x8000).to_le_bytes());
        assert!(matches!(fault(&bytes), Fault::Value { field: "the number of bytes", .. }));
    }
    bytes[SUPERBLOCK..SUPERBLOCK + 2].copy_from_slice(&(8000u16 | 0x8000).to_le_bytes());
    assert_eq!(fault(&bytes), Fault::Cut { what: "inode table", of: "a metadata block" });
}

#[test]
fn groups_of_too_many_entries() {
    let mut image = Image::default();
    let file = image.inode(2, 1, 1);
    let root = image.directory(0, &[(b"a", 2, file)]);
    image.listings[0..4].copy_from_slice(&256u32.to_le_bytes());
    assert!(matches!(fault(&image.finish(root)), Fault::Value { field: "the number of entries", got: 257, .. }));
    image.listings[0..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(fault(&image.finish(root)), Fault::Value { got: 4_294_967_296, .. }));
}

#[test]
fn limits() {
    let mut image = Image::default();
    let mut inside = image.directory(1, &[]);
    for _ in 0..5 {
        inside = image.directory(1, &[(b"name", 1, inside)]);
    }
    let bytes = image.finish(inside);
    let all = Limits::default();
    assert_eq!(count(&bytes, &all).expect("within"), 6);
    assert_eq!(
        count(&bytes, &Limits { depth: 6, path_bytes: 25, entries: 5, reported_bytes: 75, ..all }).expect("within"),
        6
    );
    for (limits, what) in [
        (Limits { depth: 5, ..all }, "more than 5 directories inside each other"),
        (Limits { path_bytes: 24, ..all }, "more than 24 bytes in one path"),
        (Limits { entries: 4, ..all }, "more than 4 entries"),
        (Limits { reported_bytes: 74, ..all }, "more than 74 bytes in the paths to report"),
    ] {
        let text = count(&bytes, &limits).expect_err("refused").to_string();
        assert!(text.ends_with(what), "{text}");
    }
}

#[test]
fn the_id_table() {
    let bytes = small();
    let id_table = u64::from_le_bytes(bytes[48..56].try_into().expect("eight bytes")) as usize;
    for pointer in [0u64, id_table as u64, u64::MAX] {
        let mut bytes = bytes.clone();
        bytes[id_table..id_table + 8].copy_from_slice(&pointer.to_le_bytes());
        assert!(matches!(fault(&bytes), Fault::Value { field: "the start of the first id block", .. }));
    }
    let more = with_field(26, 4u16.to_le_bytes());
    assert_eq!(fault(&more), Fault::Cut { what: "id table", of: "the ids" });
}

#[test]
fn few_held_blocks_give_the_same_owners_or_are_refused() {
    let mut image = Image { ids: (0..=60_000).collect(), ..Image::default() };
    let names: Vec<String> = (0..2000).map(|index| format!("{index:05}")).collect();
    let inodes: Vec<_> = (0..2000).map(|index| image.inode(9, index + 1, 0)).collect();
    // In order, every block comes up once; from both ends in turn, each entry asks for another block.
    let entry = |index: usize, inode: usize| (names[index].as_bytes(), 2, inodes[inode]);
    let in_order: Vec<_> = (0..2000).map(|index| entry(index, index)).collect();
    let in_turn: Vec<_> =
        (0..2000).map(|index| entry(index, if index % 2 == 0 { index } else { 1999 - index })).collect();
    for (entries, fits_one) in [(in_order, true), (in_turn, false)] {
        let mut image = image.clone();
        let root = image.directory(0, &entries);
        let bytes = image.finish(root);
        let all = Limits::default();
        assert_eq!(count(&bytes, &all).expect("reads"), 2000);
        assert_eq!(count(&bytes, &Limits { cached_blocks: 2, ..all }).expect("reads"), 2000);
        match count(&bytes, &Limits { cached_blocks: 1, ..all }) {
            Ok(count) => assert!(fits_one && count == 2000),
            Err(error) => assert!(!fits_one && error.to_string().contains("references jump to and fro"), "{error}"),
        }
    }
}
