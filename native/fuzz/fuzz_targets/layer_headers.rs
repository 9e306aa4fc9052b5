//! A layer of any bytes: members that keep what the reader promises, or an error; the same however it is stored and verified.
#![no_main]

use libfuzzer_sys::fuzz_target;
use platoon_fuzz::{with_checksums, BLOCK};
use platoon_layers::{Kind, Layer, Limits, Members, MAX_ID};
use sha2::{Digest, Sha256};

type Found = Vec<(Kind, Vec<u8>, Vec<u8>, u32, u32, u64, u64)>;

fuzz_target!(|data: &[u8]| {
    // Small, so that an input that asks for much is told so soon.
    let limits = Limits {
        tar_bytes: 1 << 22,
        record_bytes: 1 << 12,
        path_bytes: 1 << 12,
        held_bytes: 1 << 20,
        ..Limits::default()
    };
    let data = with_checksums(data);
    let layer = Layer::file("fuzzed");
    let first = members(&data, &layer, &limits);
    if let Ok(found) = &first {
        let mut last = None;
        for (kind, name, link, uid, gid, size_bytes, offset) in found {
            assert!(!name.is_empty() && !name.contains(&0) && !link.contains(&0));
            assert_eq!(!link.is_empty(), matches!(kind, Kind::HardLink | Kind::Symlink));
            assert!(*uid <= MAX_ID && *gid <= MAX_ID);
            assert!(last.is_none_or(|last| last < *offset) && offset % BLOCK as u64 == 0);
            assert!(size_bytes.next_multiple_of(BLOCK as u64) <= limits.tar_bytes);
            last = Some(*offset);
        }
    }
    // With a digest no byte is skipped, which changes nothing but what a missing end means.
    let digest = Sha256::digest(&data).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let vouched = Layer { digest: Some(format!("sha256:{digest}")), ..layer.clone() };
    let second = members(&data, &vouched, &limits);
    assert!(first.is_err() || first.as_ref().ok() == second.as_ref().ok());
    let wrong = Layer { digest: Some(format!("sha256:{}", "0".repeat(64))), ..layer };
    assert!(members(&data, &wrong, &limits).is_err());
});

fn members(data: &[u8], layer: &Layer, limits: &Limits) -> Result<Found, String> {
    let fail = |error: platoon_layers::LayersError| {
        let text = error.to_string();
        assert!(text.starts_with("fuzzed: "), "{text}");
        text
    };
    let mut members = Members::of_bytes(layer, data, limits).map_err(fail)?;
    let mut found = Found::new();
    while let Some(member) = members.next().map_err(fail)? {
        let (name, link) = (member.name.to_vec(), member.link.to_vec());
        found.push((member.kind, name, link, member.uid, member.gid, member.size_bytes, member.offset));
    }
    assert!(matches!(members.next(), Ok(None)));
    Ok(found)
}
