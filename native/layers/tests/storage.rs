//! How layers are stored: compression by magic, digests, files that are none.

mod common;

use common::{gzip, gzip_member, written, zstd, Tar};
use platoon_layers::{layer_manifest, Compression, Layer, LayersError, Limits, Members};
use sha2::{Digest, Sha256};

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", platoon_digest::hex(&Sha256::digest(bytes)))
}

fn count(bytes: &[u8]) -> Result<usize, LayersError> {
    expecting(bytes, &Layer::file("layer"))
}

fn expecting(bytes: &[u8], layer: &Layer) -> Result<usize, LayersError> {
    let mut members = Members::of_bytes(layer, bytes, &Limits::default())?;
    let mut count = 0;
    while members.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

fn two_hundred() -> Vec<u8> {
    (0..200).fold(Tar::new(), |tar, at| tar.file(&format!("f{at}"), 1, 1)).end()
}

/// A skippable frame of each kind.
fn skippable(kind: u8, data: &[u8]) -> Vec<u8> {
    [&[0x50 | kind, 0x2a, 0x4d, 0x18], (data.len() as u32).to_le_bytes().as_slice(), data].concat()
}

#[test]
fn test_u38_every_member_and_every_frame_is_read() {
    let tar = two_hundred();
    let (first, rest) = tar.split_at(1000);
    let (second, third) = rest.split_at(70_001);
    assert_eq!(count(&gzip(&[first, second, third])).expect("reads"), 200);
    assert_eq!(count(&gzip(&[b"", first, b"", second, third, b""])).expect("reads"), 200);
    let frames: Vec<u8> = [first, second, third]
        .iter()
        .enumerate()
        .flat_map(|(at, part)| [skippable(at as u8 * 7, b"table of contents"), zstd(&[part]), zstd(&[b""])].concat())
        .collect();
    assert_eq!(count(&frames).expect("reads"), 200);
    assert_eq!(count(&[frames.clone(), skippable(15, b"")].concat()).expect("reads"), 200);
    let by_bytes: Vec<&[u8]> = tar.chunks(100).collect();
    assert_eq!(count(&gzip(&by_bytes)).expect("reads"), 200);
    assert_eq!(count(&zstd(&by_bytes)).expect("reads"), 200);
}

#[test]
fn test_u38_what_follows_the_last_frame_is_an_error() {
    let tar = two_hundred();
    let (gz, zst) = (gzip(&[&tar]), zstd(&[&tar]));
    assert_eq!(count(&[gz.clone(), vec![0; 3000]].concat()).expect("padding is none"), 200);
    for (whole, garbage) in [
        (&gz, &b"x"[..]),
        (&gz, b"\x1f"),
        (&gz, b"\x1f\x8b"),
        (&gz, b"\0\0x"),
        (&gz, &zst),
        (&zst, b"x"),
        (&zst, b"\0"),
        (&zst, b"\x28\xb5"),
        (&zst, &gz),
    ] {
        let error = count(&[whole, garbage].concat()).expect_err("refused");
        assert!(matches!(error, LayersError::Compressed { offset, .. } if offset >= whole.len() as u64), "{error}");
    }
}

#[test]
fn headers_of_gzip_members_are_read_whole() {
    let tar = Tar::new().file("a", 1, 1).end();
    let plain = gzip_member(&tar);
    let mut header = b"\x1f\x8b\x08\x1e\0\0\0\0\0\xff\x03\0abcname\0a comment\0".to_vec();
    header.extend_from_slice(&(crc32fast::hash(&header) as u16).to_le_bytes());
    let with = |header: &[u8]| [header, &plain[10..]].concat();
    assert_eq!(count(&with(&header)).expect("reads"), 1);
    let length = header.len();
    for (at, byte) in [(2, 9), (3, 0x20), (length - 1, header[length - 1] ^ 1), (1, 0)] {
        let mut header = header.clone();
        header[at] = byte;
        assert!(count(&with(&header)).is_err(), "byte {at}");
    }
    for (back, what) in [(8, "checksum"), (4, "length")] {
        let mut member = plain.clone();
        let at = member.len() - back;
        member[at] ^= 1;
        assert!(count(&member).expect_err("refused").to_string().contains(what));
    }
}

#[test]
fn test_u39_the_media_type_must_agree_with_the_magic() {
    let tar = two_hundred();
    let stored =
        [(Compression::None, tar.clone()), (Compression::Gzip, gzip(&[&tar])), (Compression::Zstd, zstd(&[&tar]))];
    let types = [
        ("application/vnd.oci.image.layer.v1.tar", Some(Compression::None)),
        ("application/vnd.oci.image.layer.v1.tar+gzip", Some(Compression::Gzip)),
        ("application/vnd.oci.image.layer.v1.tar+zstd", Some(Compression::Zstd)),
        ("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", Some(Compression::Gzip)),
        ("application/vnd.docker.image.rootfs.diff.tar.gzip", Some(Compression::Gzip)),
        ("application/vnd.docker.image.rootfs.diff.tar.zstd", Some(Compression::Zstd)),
        ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", Some(Compression::Gzip)),
        ("application/vnd.sylabs.image.layer.v1.squashfs", None),
        ("application/octet-stream", None),
        ("", None),
    ];
    for (media_type, says) in types {
        for (found, bytes) in &stored {
            let layer = Layer { media_type: Some(media_type.into()), ..Layer::file("layer") };
            match expecting(bytes, &layer) {
                Ok(count) => assert!(count == 200 && says == Some(*found), "{media_type}"),
                Err(LayersError::MediaType { expected, found: got, .. }) => {
                    assert!(expected == says && got == *found && says != Some(*found), "{media_type}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn digests_are_verified() {
    let tar = two_hundred();
    for bytes in [tar.clone(), gzip(&[&tar]), zstd(&[&tar])] {
        let whole = Layer {
            size_bytes: Some(bytes.len() as u64),
            digest: Some(sha256(&bytes)),
            diff_id: Some(sha256(&tar)),
            ..Layer::file("layer")
        };
        assert_eq!(expecting(&bytes, &whole).expect("reads"), 200);
        let error = expecting(&bytes, &Layer { size_bytes: Some(3), ..whole.clone() }).expect_err("refused");
        assert!(matches!(error, LayersError::Size { expected: 3, .. }), "{error}");
        let error = expecting(&bytes, &Layer { digest: Some(sha256(b"")), ..whole.clone() }).expect_err("refused");
        assert!(matches!(error, LayersError::Digest { what: "digest", .. }), "{error}");
        let error = expecting(&bytes, &Layer { diff_id: Some(sha256(b"")), ..whole.clone() }).expect_err("refused");
        assert!(matches!(error, LayersError::Digest { what: "diff_id", .. }), "{error}");
        let only = Layer { diff_id: Some(sha256(&tar)), ..Layer::file("layer") };
        assert_eq!(expecting(&bytes, &only).expect("reads"), 200);
        for digest in ["sha512:00", "sha256:", &sha256(&bytes).to_uppercase(), &sha256(&bytes)[7..]] {
            let error =
                expecting(&bytes, &Layer { digest: Some(digest.into()), ..whole.clone() }).expect_err("refused");
            assert!(matches!(error, LayersError::Unsupported { .. }), "{error}");
        }
    }
}

#[test]
fn damage_under_a_digest_is_told_as_other_bytes() {
    let tar = two_hundred();
    for bytes in [tar.clone(), gzip(&[&tar]), zstd(&[&tar])] {
        let layer = Layer { digest: Some(sha256(&bytes)), ..Layer::file("layer") };
        for at in [0, 40, bytes.len() / 2] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            let error = expecting(&damaged, &layer).expect_err("refused");
            assert!(matches!(error, LayersError::Digest { what: "digest", .. }), "{at}: {error}");
        }
    }
}

#[test]
fn an_archive_without_its_end_needs_a_digest() {
    let tar = Tar::new().file("a", 1, 1).bytes;
    assert!(count(&tar).is_err());
    let layer = Layer { diff_id: Some(sha256(&tar)), ..Layer::file("layer") };
    assert_eq!(expecting(&tar, &layer).expect("a digest vouches"), 1);
}

#[test]
fn files_are_read_and_their_data_passed_over() {
    let large = vec![7; 3 << 20];
    let tar = Tar::new().raw(common::Header::new(b"large", b'0', 1, 1, large.len()), &large).file("after", 2, 2).end();
    for bytes in [tar.clone(), gzip(&[&tar]), zstd(&[&tar])] {
        let (_directory, path) = written(&bytes);
        for layer in [
            Layer::file(&path),
            Layer { digest: Some(sha256(&bytes)), diff_id: Some(sha256(&tar)), ..Layer::file(&path) },
        ] {
            let owners = layer_manifest(&[layer], &Limits::default()).expect("reads");
            assert_eq!(owners.count, 2);
        }
    }
    let (_directory, path) = written(&tar[..1 << 20]);
    let error = layer_manifest(&[Layer::file(&path)], &Limits::default()).expect_err("cut");
    assert!(error.to_string().contains("entry \"large\" at byte 512: ends"), "{error}");
}

#[test]
fn what_is_no_file_is_not_read() {
    let directory = tempfile::tempdir().expect("directory");
    let fifo = directory.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    for path in [directory.path(), fifo.as_path(), std::path::Path::new("/dev/zero")] {
        let error = layer_manifest(&[Layer::file(path)], &Limits::default()).expect_err("refused");
        assert!(matches!(error, LayersError::NotAFile { .. }), "{error}");
    }
    let error =
        layer_manifest(&[Layer::file(directory.path().join("absent"))], &Limits::default()).expect_err("refused");
    assert!(matches!(error, LayersError::Io { .. }), "{error}");
}

#[test]
fn data_that_a_plain_file_lacks_is_told_without_reading_the_rest() {
    let mut header = common::Header::new(b"large", b'0', 1, 1, 0);
    header.set(124, b"\x80\0\0\0\0\0\x01\0\0\0\0\0");
    let (_directory, path) = written(&header.close());
    // A hole of a terabyte would take minutes to read.
    std::fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(1 << 40)).expect("a hole");
    let error = layer_manifest(&[Layer::file(&path)], &Limits::default()).expect_err("refused").to_string();
    assert!(error.ends_with("entry \"large\" at byte 512: ends 512 bytes too early in its data"), "{error}");
}
