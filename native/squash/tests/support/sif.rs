//! SIF files made by hand.

pub const HEADER: usize = 128;
pub const DESCRIPTOR: usize = 585;
pub const DEFINITION: u32 = 0x4001;
pub const PARTITION: u32 = 0x4004;
pub const SIGNATURE: u32 = 0x4005;
pub const ROOT_INDEX: u32 = 0x400a;
pub const BLOB: u32 = 0x400b;

pub struct Object {
    pub kind: u32,
    pub name: &'static [u8],
    pub extra: Vec<u8>,
    pub data: Vec<u8>,
}

pub fn object(kind: u32, data: &[u8]) -> Object {
    Object { kind, name: b"", extra: Vec::new(), data: data.to_vec() }
}

pub fn partition(file_system: u32, role: u32, data: &[u8]) -> Object {
    let extra = [file_system.to_le_bytes(), role.to_le_bytes(), *b"02\0\0"].concat();
    Object { extra, name: b"squash.img", ..object(PARTITION, data) }
}

pub fn blob(data: &[u8]) -> Object {
    Object { extra: sha256(data).into_bytes(), ..object(BLOB, data) }
}

pub fn sha256(data: &[u8]) -> String {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(data);
    digest.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// The file: a header, the descriptors (the first of them unused), and the data, each object at a multiple of 64 bytes.
pub fn file(objects: &[Object]) -> Vec<u8> {
    let slots = objects.len() + 1;
    let data_start = HEADER + slots * DESCRIPTOR;
    let (mut descriptors, mut data) = (vec![0; DESCRIPTOR], Vec::new());
    for (index, object) in objects.iter().enumerate() {
        data.resize((data_start + data.len()).next_multiple_of(64) - data_start, 0u8);
        let mut raw = object.kind.to_le_bytes().to_vec();
        raw.push(1);
        for field in [index as u32 + 1, 0xf000_0001, 0] {
            raw.extend(field.to_le_bytes());
        }
        let size = object.data.len() as u64;
        for field in [(data_start + data.len()) as u64, size, size, 0, 0, 0, 0] {
            raw.extend(field.to_le_bytes());
        }
        raw.extend(object.name);
        raw.resize(201, 0);
        raw.extend(&object.extra);
        raw.resize(DESCRIPTOR, 0);
        descriptors.extend(raw);
        data.extend(&object.data);
    }
    let mut bytes = b"#!/usr/bin/env run-singularity\n\0".to_vec();
    bytes.extend(b"SIF_MAGIC\x0001\x0002\0");
    bytes.extend([0xab; 16]);
    for field in [0, 0, 1, slots as u64, HEADER as u64, descriptors.len() as u64, data_start as u64, data.len() as u64]
    {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(descriptors);
    bytes.extend(data);
    bytes
}

/// An OCI-SIF of these layers: media type and content.
pub fn oci(layers: &[(&str, &[u8])]) -> Vec<u8> {
    let config = br#"{"architecture": "amd64", "config": {"User": "app"}}"#;
    let described: Vec<String> = layers.iter().map(|(media_type, data)| descriptor(media_type, data)).collect();
    let manifest = format!(
        r#"{{"schemaVersion": 2, "config": {}, "layers": [{}]}}"#,
        descriptor("application/vnd.oci.image.config.v1+json", config),
        described.join(", ")
    );
    let index = index(&[descriptor("application/vnd.oci.image.manifest.v1+json", manifest.as_bytes())]);
    let mut objects: Vec<Object> = layers.iter().map(|(_, data)| blob(data)).collect();
    objects.extend([blob(config), blob(manifest.as_bytes()), object(ROOT_INDEX, index.as_bytes())]);
    file(&objects)
}

pub fn index(manifests: &[String]) -> String {
    format!(r#"{{"schemaVersion": 2, "manifests": [{}]}}"#, manifests.join(", "))
}

pub fn descriptor(media_type: &str, data: &[u8]) -> String {
    format!(r#"{{"mediaType": "{media_type}", "digest": "{}", "size": {}}}"#, sha256(data), data.len())
}
