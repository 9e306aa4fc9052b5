//! SIF and OCI-SIF files: their objects, the root file system in them, and the refusals.

mod support;

use platoon_squash::sif::{objects, FileSystem, ObjectKind, Partition, Role};
use platoon_squash::{oci, owners, root_file_system, OciImage, Owner, SquashError, SQUASHFS_LAYER};
use support::sif::{blob, descriptor, file, index, object, partition, sha256};
use support::sif::{DEFINITION, DESCRIPTOR, HEADER, ROOT_INDEX, SIGNATURE};
use support::{with_source, Image};

const TAR_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const EXT3_LAYER: &str = "application/vnd.sylabs.image.layer.v1.ext3";

fn squashfs() -> Vec<u8> {
    let mut image = Image::default();
    let file = image.inode(2, 1, 2);
    let root = image.directory(0, &[(b"f", 2, file)]);
    image.finish(root)
}

fn root_owners(bytes: &[u8]) -> Result<Vec<Owner>, SquashError> {
    with_source(bytes, |source| owners(&root_file_system(source)?))
}

fn refusal(bytes: &[u8]) -> String {
    root_owners(bytes).expect_err("refused").to_string()
}

fn read_oci(bytes: &[u8]) -> Result<OciImage, SquashError> {
    with_source(bytes, oci)
}

fn expected() -> Vec<Owner> {
    vec![Owner { path: b"/f".to_vec(), uid: 1000, gid: 33 }]
}

#[test]
fn the_objects_of_a_sif() {
    let bytes = file(&[
        object(DEFINITION, b"bootstrap: docker\n"),
        partition(1, 2, &squashfs()),
        object(0x4123, b""),
        blob(b"{}"),
    ]);
    let found = with_source(&bytes, objects).expect("reads");
    let kinds: Vec<&ObjectKind> = found.iter().map(|object| &object.kind).collect();
    assert_eq!(
        kinds,
        [
            &ObjectKind::Definition,
            &ObjectKind::Partition(Partition { file_system: FileSystem::Squashfs, role: Role::Primary }),
            &ObjectKind::Unknown(0x4123),
            &ObjectKind::OciBlob { digest: sha256(b"{}") },
        ]
    );
    assert_eq!(found.iter().map(|object| object.id).collect::<Vec<u32>>(), [1, 2, 3, 4]);
    assert_eq!((found[1].name.as_slice(), found[1].group), (b"squash.img".as_slice(), 1));
    let text = &bytes[found[0].offset as usize..][..found[0].size_bytes as usize];
    assert_eq!(text, b"bootstrap: docker\n");
}

#[test]
fn the_root_of_each_format() {
    let image = squashfs();
    assert_eq!(root_owners(&image).expect("reads"), expected());
    let sif = file(&[
        object(DEFINITION, b""),
        partition(1, 2, &image),
        partition(2, 3, b"bound data"),
        object(SIGNATURE, b""),
    ]);
    assert_eq!(root_owners(&sif).expect("reads"), expected());
    assert_eq!(root_owners(&support::sif::oci(&[(SQUASHFS_LAYER, &image)])).expect("reads"), expected());
}

#[test]
fn partitions_that_are_refused_by_name() {
    let image = squashfs();
    let cases: [(&[u32; 2], &str); 4] = [
        (&[2, 2], "whose system partition (object 1) is ext3"),
        (&[5, 2], "whose system partition (object 1) is encrypted squashfs"),
        (&[77, 2], "whose system partition (object 1) is unknown"),
        (&[1, 3], "a SIF without a system partition"),
    ];
    for ([file_system, role], expected) in cases {
        let text = refusal(&file(&[partition(*file_system, *role, &image)]));
        assert!(text.contains(expected), "{text}");
    }
    let two = file(&[partition(1, 2, &image), partition(1, 1, &image)]);
    assert!(refusal(&two).contains("a SIF of 2 system partitions"));
    let overlay = file(&[partition(1, 2, &image), partition(2, 4, b"")]);
    assert!(refusal(&overlay).contains("an overlay (ext3, object 2), whose owners would be missing"));
    assert!(refusal(&file(&[object(DEFINITION, b"")])).contains("a SIF without a system partition"));
    assert!(refusal(b"not an image, but longer than the place of the magic of a SIF").contains("a squashfs or a SIF"));
    assert!(refusal(b"").contains("4 bytes at byte 0 do not fit"));
}

#[test]
fn layers_that_are_refused_by_name() {
    let image = squashfs();
    let several = support::sif::oci(&[(SQUASHFS_LAYER, &image), (EXT3_LAYER, b"e")]);
    assert!(refusal(&several).contains("an OCI-SIF of 2 layers"));
    assert!(refusal(&support::sif::oci(&[(TAR_LAYER, b"t")])).contains("tar+gzip"));
    assert!(refusal(&support::sif::oci(&[])).contains("an OCI-SIF of 0 layers"));
}

#[test]
fn an_oci_sif_by_its_digests() {
    let bytes = support::sif::oci(&[(SQUASHFS_LAYER, b"one"), (EXT3_LAYER, b"two")]);
    let found = read_oci(&bytes).expect("reads");
    assert!(found.config.starts_with(b"{\"architecture\""));
    assert_eq!(found.config_digest, sha256(&found.config));
    assert_eq!(found.manifest_digest, sha256(&found.manifest));
    let layers: Vec<_> = found.layers.iter().map(|layer| (layer.media_type.as_str(), &layer.digest)).collect();
    assert_eq!(layers, [(SQUASHFS_LAYER, &sha256(b"one")), (EXT3_LAYER, &sha256(b"two"))]);
    let second = &found.layers[1];
    assert_eq!(&bytes[second.offset as usize..][..second.size_bytes as usize], b"two");
}

#[test]
fn oci_layouts_that_do_not_hold_together() {
    let manifest = |config: &str, layers: &str| format!(r#"{{"config": {config}, "layers": [{layers}]}}"#);
    let config = descriptor("c", b"{}");
    let layout = |manifest: &str, blobs: &[&[u8]]| {
        let root = index(&[descriptor("m", manifest.as_bytes())]);
        let mut parts = vec![object(ROOT_INDEX, root.as_bytes()), blob(manifest.as_bytes())];
        parts.extend(blobs.iter().map(|data| blob(data)));
        read_oci(&file(&parts)).expect_err("refused").to_string()
    };
    let missing = layout(&manifest(&config, ""), &[]);
    assert!(missing.contains("OCI configuration") && missing.contains(&sha256(b"{}")), "{missing}");
    let lost_layer = layout(&manifest(&config, &descriptor("l", b"layer")), &[b"{}"]);
    assert!(lost_layer.contains("OCI layer at byte 0: none of the objects"), "{lost_layer}");
    let longer = descriptor("c", b"{}").replace("\"size\": 2", "\"size\": 3");
    let resized = layout(&manifest(&longer, ""), &[b"{}"]);
    assert!(resized.contains("2 bytes, where a blob of 3 is expected"), "{resized}");
    let other = config.replace("sha256:", "sha512:");
    assert!(layout(&manifest(&other, ""), &[b"{}"]).contains("the digest \"sha512:"));
    assert!(layout("[", &[]).contains("not the JSON it should be"));
    assert!(layout("{}", &[]).contains("missing field `config`"));
    for manifests in [vec![], vec![config.clone(), config]] {
        let root = index(&manifests);
        let text = read_oci(&file(&[object(ROOT_INDEX, root.as_bytes())])).expect_err("refused").to_string();
        assert!(text.contains(&format!("an OCI root index of {} manifests", manifests.len())), "{text}");
    }
    let none = read_oci(&file(&[blob(b"{}")])).expect_err("refused").to_string();
    assert!(none.contains("without an OCI root index"), "{none}");
    let two = read_oci(&file(&[object(ROOT_INDEX, b""), object(ROOT_INDEX, b"")])).expect_err("refused").to_string();
    assert!(two.contains("several OCI root indices"), "{two}");
}

#[test]
fn a_blob_that_was_changed() {
    let mut bytes = support::sif::oci(&[(SQUASHFS_LAYER, b"layer")]);
    let at = bytes.windows(4).position(|window| window == b"\"app").expect("in the configuration");
    bytes[at + 1] = b'A';
    let text = read_oci(&bytes).expect_err("refused").to_string();
    assert!(text.contains("OCI configuration at byte"), "{text}");
}

#[test]
fn json_of_any_size_is_not_read() {
    let bytes = file(&[object(ROOT_INDEX, &vec![b' '; (4 << 20) + 1])]);
    assert!(read_oci(&bytes).expect_err("refused").to_string().contains("more than 4194304 bytes in one JSON object"));
}

#[test]
fn sizes_and_places_outside_the_file() {
    let whole = file(&[partition(1, 2, &squashfs())]);
    for length in 0..whole.len() {
        root_owners(&whole[..length]).expect_err("refused");
    }
    let set = |at: usize, value: i64| {
        let mut bytes = whole.clone();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        refusal(&bytes)
    };
    let descriptor = HEADER + DESCRIPTOR;
    for value in [-1, i64::MAX, i64::MIN, 1 << 40] {
        assert!(set(88, value).contains("SIF header at byte 88: the number of descriptors"));
        assert!(set(96, value).contains("SIF descriptors: "));
        assert!(set(descriptor + 17, value).contains("SIF object 1: "), "offset");
        assert!(set(descriptor + 25, value).contains("SIF object 1: "), "size");
    }
    let mut newer = whole.clone();
    newer[42..44].copy_from_slice(b"02");
    assert!(refusal(&newer).contains("SIF version \"02\""));
    let text = with_source(&squashfs(), objects).expect_err("refused").to_string();
    assert!(text.contains("a SIF is expected at byte 32"), "{text}");
}
