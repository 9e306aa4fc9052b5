//! What a squashfs may look like: every type, table and oddity that writers produce is read.

mod support;

use support::{lines, read, Image, BLOCK};

#[test]
fn all_fourteen_types() {
    let mut image = Image::default();
    let kinds: Vec<u16> = (2..=7).chain(9..=14).collect();
    let names: Vec<String> = kinds.iter().map(|kind| format!("type{kind:02}")).collect();
    let inodes: Vec<_> = kinds.iter().map(|&kind| image.inode(kind, 1, 2)).collect();
    let entries: Vec<_> = kinds
        .iter()
        .zip(&names)
        .zip(inodes)
        .map(|((kind, name), inode)| (name.as_bytes(), if *kind > 7 { kind - 7 } else { *kind }, inode))
        .collect();
    let inside = image.basic_directory(1, &entries);
    let root = image.directory(2, &[(b"basic", 1, inside)]);
    let mut expected = vec!["33 0 /".to_owned(), "1000 0 /basic".to_owned()];
    expected.extend(names.iter().map(|name| format!("1000 33 /basic/{name}")));
    assert_eq!(lines(&image.finish(root)), expected);
}

#[test]
fn u55_more_ids_than_one_block_holds_and_both_names_of_a_link() {
    let mut image = Image { ids: (0..10_005).collect(), ..Image::default() };
    let inodes: Vec<_> = (0..5000).map(|index| image.inode(2, index + 1, index + 5001)).collect();
    let names: Vec<String> = (0..5000).map(|index| format!("f{index:04}")).collect();
    let mut entries: Vec<_> = names.iter().zip(&inodes).map(|(name, inode)| (name.as_bytes(), 2, *inode)).collect();
    entries.push((b"link", 2, inodes[17]));
    let root = image.directory(0, &entries);
    let found = lines(&image.finish(root));
    assert_eq!(found.len(), 5001);
    assert_eq!(found[0], "1 5001 /f0000");
    assert_eq!(found[4999], "5000 10000 /f4999");
    assert_eq!(found[5000], "18 5018 /link");
}

#[test]
fn root_alone_is_no_owner_and_one_half_is() {
    let mut image = Image::default();
    let inodes = [(0, 0), (0, 1), (1, 0)].map(|(uid, gid)| image.inode(2, uid, gid));
    let root = image.directory(0, &[(b"a", 2, inodes[0]), (b"b", 2, inodes[1]), (b"c", 2, inodes[2])]);
    assert_eq!(lines(&image.finish(root)), ["0 1000 /b", "1000 0 /c"]);
}

#[test]
fn an_image_of_its_root_alone() {
    let mut image = Image::default();
    let root = image.basic_directory(1, &[]);
    assert_eq!(lines(&image.finish(root)), ["1000 0 /"]);
}

#[test]
fn records_that_lie_across_blocks() {
    // Names of all lengths shift headers, entries and names over each byte of a block's end.
    for shift in 0..40 {
        let mut image = Image::default();
        image.listings.extend(vec![0; BLOCK - 20 - shift]);
        image.inodes.extend(vec![0; BLOCK - 1 - shift]);
        let names: Vec<Vec<u8>> = (1..=256).map(|length| vec![b'n'; length]).collect();
        let inodes: Vec<_> = names.iter().map(|_| image.inode(2, 1, 1)).collect();
        let entries: Vec<_> = names.iter().zip(inodes).map(|(name, inode)| (name.as_slice(), 2, inode)).collect();
        let root = image.directory(0, &entries);
        let found = read(&image.finish(root)).expect("reads");
        let lengths: Vec<usize> = found.iter().map(|owner| owner.path.len() - 1).collect();
        assert_eq!(lengths, (1..=256).collect::<Vec<usize>>(), "shifted by {shift}");
    }
}

#[test]
fn u46_names_are_bytes() {
    let names: [&[u8]; 8] = [b" lead", b"...", b"\xff\xfe", b"a\nb", b"a\rb", b"c\t", b"l -> m", b"trail "];
    let mut sorted = names;
    sorted.sort_unstable();
    let mut image = Image::default();
    let inode = image.inode(2, 1, 1);
    let root = image.directory(0, &sorted.map(|name| (name, 2, inode)));
    let found: Vec<Vec<u8>> =
        read(&image.finish(root)).expect("reads").into_iter().map(|owner| owner.path[1..].to_vec()).collect();
    assert_eq!(found, sorted.map(<[u8]>::to_vec));
}

#[test]
fn u50_compressor_options_are_not_judged() {
    // zstd level 0, and what is no options block of any compressor.
    for options in [vec![0, 0, 0, 0], vec![0xff; 60]] {
        let mut image = Image { options: Some(options), ..Image::default() };
        let root = image.basic_directory(1, &[]);
        assert_eq!(lines(&image.finish(root)), ["1000 0 /"]);
    }
}

#[test]
fn an_image_at_an_offset_and_bytes_after_it() {
    let mut image = Image::default();
    let root = image.basic_directory(1, &[]);
    let bytes = [vec![0x5a; 1234], image.finish(root), vec![0; 4096]].concat();
    let found = support::with_source(&bytes, |source| platoon_squash::owners(&source.from(1234)?));
    assert_eq!(found.expect("reads").len(), 1);
}

#[test]
fn a_name_below_the_slash_after_a_directory_of_its_start() {
    let mut image = Image::default();
    let file = image.inode(2, 1, 1);
    let inside = image.directory(0, &[(b"z", 2, file)]);
    let root = image.directory(0, &[(b"b", 1, inside), (b"b-x", 2, file), (b"b.y", 2, file)]);
    assert_eq!(lines(&image.finish(root)), ["1000 1000 /b/z", "1000 1000 /b-x", "1000 1000 /b.y"]);
}
