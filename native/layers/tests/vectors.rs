//! Owner manifests against their published vectors.

mod common;

use common::{manifest, Header, Tar};
use platoon_layers::OWNERS_RULE;

#[derive(serde::Deserialize)]
struct Vectors {
    rule: String,
    vectors: Vec<Vector>,
}

#[derive(serde::Deserialize)]
struct Vector {
    name: String,
    layers: Vec<Vec<Entry>>,
    manifest: String,
}

#[derive(serde::Deserialize)]
struct Entry {
    name: String,
    r#type: String,
    uid: u64,
    gid: u64,
    #[serde(default)]
    link: String,
}

fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|character| u8::try_from(character).expect("Latin-1")).collect()
}

#[test]
fn published_vectors() {
    let vectors: Vectors = serde_json::from_str(include_str!("../vectors.json")).expect("vectors parse");
    assert_eq!(vectors.rule, OWNERS_RULE);
    for vector in vectors.vectors {
        let layers: Vec<Vec<u8>> = vector
            .layers
            .iter()
            .map(|entries| {
                let tar = entries.iter().fold(Tar::new(), |tar, entry| {
                    let typeflag = entry.r#type.as_bytes()[0];
                    let mut header = Header::new(&bytes(&entry.name), typeflag, entry.uid, entry.gid, 0);
                    header.set(157, &bytes(&entry.link));
                    tar.raw(header, b"")
                });
                tar.end()
            })
            .collect();
        let layers: Vec<&[u8]> = layers.iter().map(Vec::as_slice).collect();
        assert_eq!(manifest(&layers).expect("layers are well"), vector.manifest, "{}", vector.name);
    }
}
