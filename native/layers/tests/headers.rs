//! Members of every format, and headers that no reader should trust.

mod common;

use common::{fault, gzip, octal, owners, Header, Tar};
use platoon_layers::{Fault, Kind, Layer, LayersError, Limits, Members};

fn names(bytes: &[u8]) -> Vec<(Kind, String, u32, u64)> {
    let mut members = Members::of_bytes(&Layer::file("layer"), bytes, &Limits::default()).expect("opens");
    let mut found = Vec::new();
    while let Some(member) = members.next().expect("reads") {
        found.push((member.kind, member.name.escape_ascii().to_string(), member.uid, member.size_bytes));
    }
    found
}

#[test]
fn test_u28_ids_above_octal_in_pax_and_gnu_headers() {
    let largest = 4_294_967_294;
    let by_records = Tar::new().records(b'x', &[("uid", b"4294967294"), ("gid", b"4294967294")]).file("pax", 0, 0);
    let tar = by_records.raw(Header::new(b"gnu", b'0', largest, largest, 0).gnu(), b"");
    assert_eq!(owners(&[tar]), "4294967294 4294967294 /gnu\n4294967294 4294967294 /pax\n");
}

#[test]
fn test_u30_huge_ids_are_listed() {
    let tar = Tar::new().file("a", 205_001, 5000).file("b", 1_516_583_083, 0);
    assert_eq!(owners(&[tar]), "205001 5000 /a\n1516583083 0 /b\n");
}

#[test]
fn ids_that_chown_cannot_take_are_refused() {
    for id in [4_294_967_295, u64::from(u32::MAX) + 1, u64::MAX >> 2] {
        let (offset, found) = fault(&Tar::new().file("ok", 0, 0).file("b", id, 0).end());
        assert_eq!((offset, found), (1024, Fault::Above { field: "uid", got: id, limit: 4_294_967_294 }));
        let (_, found) = fault(&Tar::new().records(b'x', &[("gid", id.to_string().as_bytes())]).file("b", 0, 0).end());
        assert!(matches!(found, Fault::Key { .. }), "{found}");
    }
    let mut negative = Header::new(b"b", b'0', 0, 0, 0).gnu();
    negative.set(108, b"\xff\xff\xff\xff\xff\xff\xff\xfe");
    assert!(matches!(fault(&Tar::new().raw(negative, b"").end()).1, Fault::Number { field: "uid", .. }));
}

#[test]
fn pax_records_override_fields() {
    let long = "d/".repeat(120) + "name";
    let tar = Tar::new()
        .records(b'x', &[("path", long.as_bytes()), ("mtime", b"1.5"), ("uid", b"7"), ("size", b"5"), ("gid", b"")])
        .raw(Header::new(b"short", b'0', 1, 2, 0), b"")
        .raw(Header::new(b"after", b'0', 3, 3, 0), b"");
    // The size of the records counts: a block of data follows the first header.
    let mut bytes = tar.bytes;
    let data = bytes.len() - 512;
    bytes.splice(data..data, [b'x'; 512]);
    let tar = Tar { bytes };
    assert_eq!(owners(std::slice::from_ref(&tar)), format!("3 3 /after\n7 2 /{long}\n"));
    assert_eq!(names(&tar.end())[0], (Kind::File, long, 7, 5));
}

#[test]
fn global_records_hold_until_others_come() {
    let tar = Tar::new()
        .records(b'g', &[("comment", b"made by a version control system"), ("uid", b"5"), ("gid", b"6")])
        .file("a", 1, 1)
        .records(b'x', &[("uid", b"9"), ("gid", b"")])
        .file("b", 1, 1)
        .records(b'g', &[("uid", b"")])
        .file("c", 1, 1);
    assert_eq!(owners(&[tar]), "5 6 /a\n9 1 /b\n1 6 /c\n");
    let (offset, found) = fault(&Tar::new().file("a", 0, 0).records(b'g', &[("path", b"x")]).file("b", 0, 0).end());
    assert_eq!(offset, 1024);
    assert!(matches!(found, Fault::Key { .. }), "{found}");
}

#[test]
fn gnu_long_names_and_links() {
    let (name, target) = ("n/".repeat(80) + "name", "t/".repeat(80) + "target");
    let tar = Tar::new()
        .long(b'L', target.as_bytes())
        .raw(Header::new(b"cut", b'0', 4, 4, 0).gnu(), b"")
        .long(b'K', target.as_bytes())
        .long(b'L', name.as_bytes())
        .raw(Header::new(b"cut", b'1', 0, 0, 0).gnu(), b"");
    assert_eq!(owners(&[tar]), format!("4 4 /{name}\n4 4 /{target}\n"));
}

#[test]
fn prefixes_of_ustar_and_star_and_times_of_gnu() {
    let mut ustar = Header::new(b"name", b'0', 1, 1, 0);
    ustar.set(345, b"a/prefix");
    let mut star = Header::new(b"name", b'0', 2, 2, 0);
    star.set(345, &[b's'; 131]);
    star.set(476, b"00000000000 00000000000 ");
    star.set(508, b"tar\0");
    let mut gnu = Header::new(b"name", b'0', 3, 3, 0).gnu();
    gnu.set(345, b"00000000000\0");
    let mut seven = Header::new(b"old/", 0, 4, 4, 0);
    seven.set(257, &[0; 8]);
    let tar = Tar::new().raw(ustar, b"").raw(star, b"").raw(gnu, b"").raw(seven, b"");
    let star = "s".repeat(131);
    assert_eq!(
        owners(std::slice::from_ref(&tar)),
        format!("1 1 /a/prefix/name\n3 3 /name\n4 4 /old\n2 2 /{star}/name\n")
    );
    assert_eq!(names(&tar.end())[3].0, Kind::Directory);
}

#[test]
fn sparse_files_of_both_kinds() {
    // Two blocks of map follow the header, then one of data.
    let mut old = Header::new(b"old", b'S', 1, 1, 512).gnu();
    old.set(482, b"\x01");
    old.set(483, &octal(1 << 30, 12));
    let mut tar = Tar::new().raw(old, b"");
    for goes_on in [1, 0] {
        let mut map = [0; 512];
        map[504] = goes_on;
        tar.bytes.extend_from_slice(&map);
    }
    tar.bytes.extend_from_slice(&[b'x'; 512]);
    let tar = tar
        .records(b'x', &[("GNU.sparse.size", b"999"), ("GNU.sparse.numblocks", b"1"), ("GNU.sparse.offset", b"0")])
        .file("v00", 2, 2)
        .records(b'x', &[("GNU.sparse.name", b"v01"), ("GNU.sparse.map", b"0,5"), ("path", b"GNUSparseFile.1/v01")])
        .file("GNUSparseFile.1/v01", 3, 3)
        .records(
            b'x',
            &[
                ("GNU.sparse.major", b"1"),
                ("GNU.sparse.minor", b"0"),
                ("GNU.sparse.name", b"v10"),
                ("path", b"GNUSparseFile.1/v10"),
            ],
        )
        .file("cut", 4, 4)
        .file("last", 5, 5);
    assert_eq!(owners(&[tar]), "5 5 /last\n1 1 /old\n2 2 /v00\n3 3 /v01\n4 4 /v10\n");
    for records in [
        &[("GNU.sparse.major", &b"2"[..]), ("GNU.sparse.minor", b"0")][..],
        &[("GNU.sparse.name", b"other than the path")],
    ] {
        let found = fault(&Tar::new().records(b'x', records).file("a", 0, 0).end());
        assert!(matches!(found, (1024, Fault::Sparse { .. })), "{found:?}");
    }
}

#[test]
fn sizes_of_what_has_no_data_do_not_count() {
    let mut tar = Tar::new();
    for typeflag in [b'1', b'2', b'3', b'4', b'5', b'6'] {
        let mut header = Header::new(&[typeflag], typeflag, 1, 1, 4096);
        header.set(157, b"target");
        tar = tar.raw(header, b"");
    }
    assert_eq!(names(&tar.file("after", 1, 1).end()).len(), 7);
}

#[test]
fn other_types() {
    let dumped = Tar::new()
        .raw(Header::new(b"label", b'V', 0, 0, 0).gnu(), b"")
        .raw(Header::new(b"dir/", b'D', 1, 1, 700).gnu(), &[b'n'; 700]);
    let names = names(&dumped.raw(Header::new(b"c", b'7', 2, 2, 3), b"abc").end());
    assert_eq!(names, [(Kind::Directory, "dir/".into(), 1, 700), (Kind::File, "c".into(), 2, 3)]);
    for typeflag in [b'M', b'N', b'A', b'8', b'\xff'] {
        let found = fault(&Tar::new().file("a", 0, 0).member("b", typeflag, 0, 0).end());
        assert!(matches!(found, (1024, Fault::Kind { .. })), "{found:?}");
    }
}

#[test]
fn old_checksums_of_signed_bytes_are_taken() {
    let header = Header::new("\u{e9}".as_bytes(), b'0', 1, 1, 0).close();
    let mut signed = header;
    let sum: i32 = header
        .iter()
        .enumerate()
        .map(|(at, &byte)| if (148..156).contains(&at) { 32 } else { (byte as i8).into() })
        .sum();
    signed[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let bytes = [&signed[..], &[0; 1024]].concat();
    assert_eq!(names(&bytes).len(), 1);
    signed[0] ^= 1;
    assert_eq!(fault(&[&signed[..], &[0; 1024]].concat()), (0, Fault::NoTar));
    let later = Tar::new().file("a", 1, 1).bytes;
    assert!(matches!(fault(&[&later[..], &signed].concat()), (1024, Fault::Checksum { .. })));
}

#[test]
fn faults_name_entry_and_offset() {
    type Case = (Tar, u64, fn(&Fault) -> bool);
    let two_names = Tar::new().records(b'x', &[("path", b"a")]).long(b'L', b"b").file("c", 0, 0);
    let cases: Vec<Case> = vec![
        (two_names, 2048, |fault| matches!(fault, Fault::Twice { what: "name" })),
        (Tar::new().records(b'x', &[]).records(b'x', &[]).file("a", 0, 0), 512, |fault| {
            matches!(fault, Fault::Twice { .. })
        }),
        (Tar::new().file("a", 0, 0).records(b'x', &[("uid", b"1")]), 2048, |fault| matches!(fault, Fault::Dangling)),
        (Tar::new().records(b'x', &[("uid", b"-1")]).file("a", 0, 0), 0, |fault| matches!(fault, Fault::Key { .. })),
        (Tar::new().records(b'x', &[("path", b"a\0b")]).file("a", 0, 0), 0, |fault| matches!(fault, Fault::Key { .. })),
        (Tar::new().file("", 0, 0), 0, |fault| matches!(fault, Fault::Name { .. })),
        (Tar::new().symlink("a", ""), 0, |fault| matches!(fault, Fault::Target { .. })),
        (Tar::new().file("a/", 0, 0), 0, |fault| matches!(fault, Fault::Name { .. })),
        (Tar::new().raw(Header::new(b"a", b'0', 0, 0, 1 << 40), b""), 512, |fault| matches!(fault, Fault::Cut { .. })),
    ];
    for (tar, offset, is_expected) in cases {
        let found = fault(&tar.end());
        assert_eq!(found.0, offset, "{}", found.1);
        assert!(is_expected(&found.1), "{}", found.1);
    }
    for data in [
        &b"5 a=b\n"[..],
        b"7 a=b\n",
        b"x",
        b"6 a=b\nxx",
        b"6 ab=\x01",
        b"4 a\n",
        b"5 =b\n",
        b"99999999999999999999999 a=b\n",
    ] {
        let header = Header::new(b"pax", b'x', 0, 0, data.len());
        let found = fault(&Tar::new().raw(header, data).file("a", 0, 0).end());
        assert!(matches!(found, (0, Fault::Record { .. })), "{}: {found:?}", data.escape_ascii());
    }
}

#[test]
fn extended_headers_are_bounded() {
    let limits = Limits { record_bytes: 1000, ..Limits::default() };
    for typeflag in [b'x', b'g', b'L', b'K'] {
        let header = Header::new(b"meta", typeflag, 0, 0, 1001);
        let bytes = Tar::new().raw(header, &[b'a'; 1001]).end();
        let mut members = Members::of_bytes(&Layer::file("layer"), &bytes, &limits).expect("opens");
        let error = members.next().expect_err("refused");
        assert_eq!(error.to_string(), "layer: entry \"meta\" at byte 0: size is 1001, above 1000");
        assert!(members.next().is_err(), "the end after an error would vouch for what was read");
    }
}

#[test]
fn ends_of_archives() {
    let tar = Tar::new().file("a", 1, 1);
    let zeros = |count| [tar.bytes.clone(), vec![0; count]].concat();
    for count in [512, 1024, 1025, 10240] {
        assert_eq!(names(&zeros(count)).len(), 1, "{count}");
    }
    assert_eq!(fault(&zeros(0)), (1024, Fault::NoEnd));
    assert_eq!(fault(&zeros(100)), (1024, Fault::Cut { part: "last block", missing: 412 }));
    assert_eq!(fault(&[zeros(512), tar.bytes.clone()].concat()), (1024, Fault::LoneZeroBlock));
    assert_eq!(fault(&[zeros(1024), b"\0\0x".to_vec()].concat()), (2050, Fault::AfterEnd));
    assert_eq!(fault(b""), (0, Fault::NoEnd));
}

#[test]
fn what_is_no_layer_is_named() {
    for (bytes, what) in [
        (&b"hsqs\x01\0\0\0"[..], "a squashfs image in the place of a layer"),
        (b"{\"schemaVersion\":2}", "JSON in the place of a layer"),
        (b"\xfd7zXZ\0\0\x04", "a layer in xz"),
        (b"BZh91AY&SY", "a layer in bzip2"),
        (&[b"\x04\x22\x4d\x18".as_slice(), &[7; 600]].concat(), "a layer in lz4"),
    ] {
        let mut members = Members::of_bytes(&Layer::file("layer"), bytes, &Limits::default()).expect("opens");
        match members.next().expect_err("refused") {
            LayersError::Unsupported { what: found, .. } => assert_eq!(found, what),
            error => panic!("{error}"),
        }
    }
    assert_eq!(owners(&[Tar::new().file("{", 1, 1).file("BZh9", 1, 1)]), "1 1 /BZh9\n1 1 /{\n");
}

#[test]
fn a_bomb_is_refused_at_the_stated_limit() {
    let limits = Limits { tar_bytes: 1 << 20, ..Limits::default() };
    let zeros = vec![0; 1 << 16];
    let parts: Vec<&[u8]> = (0..64).map(|_| zeros.as_slice()).collect();
    for bytes in [gzip(&parts), common::zstd(&parts), vec![0; 1 << 22]] {
        let mut members = Members::of_bytes(&Layer::file("layer"), &bytes, &limits).expect("opens");
        let error = members.next().expect_err("refused");
        assert_eq!(error.to_string(), "layer: more than 1048576 bytes of decompressed tar");
    }
}
