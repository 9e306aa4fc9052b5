//! An archive of any bytes: the files that its members are, under names of an image's and where they lie; or none, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use platoon_fuzz::with_checksums;
use platoon_layers::{saved_files, Compression, Kind, Layer, LayersError, Limits, Members, SavedFile};

fuzz_target!(|data: &[u8]| {
    // Small, so that an input that asks for much is told so soon.
    let limits = Limits {
        tar_bytes: 1 << 22,
        record_bytes: 1 << 12,
        path_bytes: 1 << 12,
        held_bytes: 1 << 16,
        ..Limits::default()
    };
    let data = with_checksums(data);
    let layer = Layer::file("fuzzed");
    let members = Members::of_bytes(&layer, &data, &limits);
    let files = match members.and_then(|members| saved_files(members, &limits)) {
        Ok(Some(files)) => files,
        Ok(None) => return,
        Err(error) => return told(error),
    };
    assert!(files.iter().any(|file| matches!(&file.name[..], b"oci-layout" | b"manifest.json")));
    assert!(files.iter().map(|file| file.name.len()).sum::<usize>() <= limits.held_bytes);
    let mut end = 0;
    for SavedFile { name, target, offset, size_bytes } in &files {
        let mut parts = name.split(|&byte| byte == b'/');
        assert!(is_of_image(parts.next().expect("has one")), "{}", name.escape_ascii());
        assert!(parts.all(|part| !matches!(part, b"" | b".")), "{}", name.escape_ascii());
        assert!(target.is_none() || *size_bytes == 0);
        assert!(end <= *offset && offset + size_bytes <= data.len() as u64);
        end = offset + size_bytes;
    }
    let mut members = Members::of_bytes(&layer, &data, &limits).expect("opened before");
    assert_eq!(members.compression(), Compression::None);
    let mut listed = files.iter();
    while let Some(member) = members.next().expect("was read before") {
        if member.kind == Kind::Directory || member.name.iter().all(|byte| b"./".contains(byte)) {
            continue;
        }
        let file = listed.next().expect("one a member");
        let target = (member.kind == Kind::Symlink).then_some(member.link);
        assert_eq!(
            (file.target.as_deref(), file.offset, file.size_bytes),
            (target, member.data_offset, member.size_bytes)
        );
    }
    assert!(listed.next().is_none());
});

fn is_of_image(name: &[u8]) -> bool {
    let digits = name.strip_prefix(b"sha256:").unwrap_or(name);
    matches!(name, b"oci-layout" | b"index.json" | b"manifest.json" | b"repositories" | b"blobs")
        || digits.len() >= 64 && digits[..64].iter().all(u8::is_ascii_hexdigit)
}

fn told(error: LayersError) {
    assert!(error.to_string().starts_with("fuzzed: "), "{error}");
}
