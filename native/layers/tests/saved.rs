//! Archives of images: told from layers, listed, and read in place.

mod common;

use std::path::Path;

use common::{gzip, written, Header, Tar};
use platoon_layers::{layer_manifest, Inside, Layer, LayersError, Limits, Members, SavedFile};

const ID: &str = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";

fn listed(bytes: &[u8]) -> Result<Option<Vec<SavedFile>>, LayersError> {
    let (_directory, path) = written(bytes);
    saved_files(&path, &Limits::default())
}

fn saved_files(path: &Path, limits: &Limits) -> Result<Option<Vec<SavedFile>>, LayersError> {
    platoon_layers::saved_files(Members::open(&Layer::file(path), limits)?, limits)
}

fn file(tar: Tar, name: &str, data: &[u8]) -> Tar {
    tar.raw(Header::new(name.as_bytes(), b'0', 0, 0, data.len()), data)
}

/// As Docker before its release 25 writes it.
fn archive(layer: &[u8]) -> Tar {
    let tar = Tar::new().dir(&format!("{ID}/"), 0, 0);
    let tar = file(tar, &format!("{ID}/layer.tar"), layer).symlink(&format!("{ID}.tar"), &format!("{ID}/layer.tar"));
    file(file(tar, "./manifest.json", b"[]"), "repositories", b"{}")
}

#[test]
fn a_layer_is_read_where_it_lies() {
    let layer = Tar::new().file("a", 1, 2).end();
    for stored in [layer.clone(), gzip(&[&layer])] {
        let (_directory, path) = written(&archive(&stored).end());
        let files = saved_files(&path, &Limits::default()).expect("reads").expect("is an archive");
        let names: Vec<_> = files.iter().map(|file| String::from_utf8_lossy(&file.name).into_owned()).collect();
        assert_eq!(names, [&format!("{ID}/layer.tar"), &format!("{ID}.tar"), "manifest.json", "repositories"]);
        assert_eq!(files[1].target.as_deref(), Some(format!("{ID}/layer.tar").as_bytes()));
        let SavedFile { offset, size_bytes, .. } = files[0];
        assert_eq!((size_bytes, files[0].target.is_none()), (stored.len() as u64, true));
        let inside = |offset, size_bytes| Some(Inside { name: "the/layer".into(), offset, size_bytes });
        let owners = |inside| layer_manifest(&[Layer { inside, ..Layer::file(&path) }], &Limits::default());
        assert_eq!(owners(inside(offset, size_bytes)).expect("reads").count, 1);
        let shown = path.join("the/layer").display().to_string();
        let error = owners(inside(offset, 100)).expect_err("refused").to_string();
        assert!(error.starts_with(&shown), "{error}");
        for (offset, size_bytes) in [(offset, u64::MAX), (u64::MAX, 1), (1 << 63, 1 << 63), (offset, 1 << 40)] {
            let error = owners(inside(offset, size_bytes)).expect_err("refused").to_string();
            let said = format!("{shown}: {size_bytes} bytes at byte {offset} do not fit in a file of ");
            assert!(error.starts_with(&said), "{error}");
        }
    }
}

#[test]
fn what_is_no_archive_of_an_image() {
    let image = archive(b"");
    for tar in [
        Tar::new(),
        Tar::new().file("etc/passwd", 0, 0),
        // A file system may hold a file of that name.
        Tar::new().file("manifest.json", 0, 0).dir("usr", 0, 0),
        image.clone().dir("usr/", 0, 0),
        Tar::new().dir("blobs/", 0, 0),
        Tar::new().dir("manifest.json/", 0, 0).dir("oci-layout/", 0, 0),
        file(Tar::new(), &ID[1..], b""),
        file(Tar::new(), "blobs/manifest.json", b""),
    ] {
        assert_eq!(listed(&tar.end()).expect("reads"), None);
    }
    assert_eq!(listed(&gzip(&[&Tar::new().file("a", 0, 0).end()])).expect("reads"), None);
    let error = listed(&gzip(&[&image.clone().end()])).expect_err("refused").to_string();
    assert!(error.ends_with("an archive of an image in gzip is not read here"), "{error}");
    assert!(listed(&file(Tar::new(), "oci-layout", b"").end()).expect("reads").is_some());
    assert!(listed(&image.bytes).is_err(), "no end");
    let error = listed(&image.hard("index.json", "repositories").end()).expect_err("refused").to_string();
    assert!(error.contains("\"index.json\", a hard link or special file in an archive of an image, is not read here"));
}

#[test]
fn names_are_bounded() {
    let (_directory, path) = written(&archive(b"").end());
    let limits = Limits { held_bytes: 300, ..Limits::default() };
    let error = saved_files(&path, &limits).expect_err("refused");
    assert_eq!(error.to_string(), format!("{}: more than 300 bytes of names in an archive", path.display()));
    assert!(matches!(saved_files(Path::new("/dev/null"), &limits), Err(LayersError::NotAFile { .. })));
}
