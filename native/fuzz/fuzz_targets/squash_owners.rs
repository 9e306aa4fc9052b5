//! An image of any bytes: owners within the limits or an error, twice the same, whatever number of unpacked blocks is held.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use platoon_squash::{visit_owners, Limits, Source};

/// Small, so that an input that asks for much is told so soon.
const LIMITS: Limits =
    Limits { depth: 64, path_bytes: 4096, entries: 20_000, reported_bytes: 1 << 20, cached_blocks: 64 };

fuzz_target!(|data: &[u8]| {
    let Ok(first) = owners(data, LIMITS) else { return };
    for (path, uid, gid) in &first {
        assert!(path.starts_with(b"/") && (path == b"/" || !path.ends_with(b"/")), "{}", path.escape_ascii());
        assert!((*uid, *gid) != (0, 0));
        let names = path[1..].split(|&byte| byte == b'/');
        assert!(names.into_iter().all(|name| name != b"." && name != b".." && !name.contains(&0)));
    }
    let mut paths: Vec<_> = first.iter().map(|(path, ..)| path).collect();
    paths.sort_unstable();
    assert!(paths.windows(2).all(|pair| pair[0] != pair[1]));
    // Fewer blocks may be too few for an image that jumps to and fro; they never give other owners.
    if let Ok(again) = owners(data, Limits { cached_blocks: 1, ..LIMITS }) {
        assert_eq!(again, first);
    }
});

type Owners = Vec<(Vec<u8>, u32, u32)>;

fn owners(data: &[u8], limits: Limits) -> Result<Owners, ()> {
    let mut owners = Vec::new();
    let image = Source::new(&data, Path::new("fuzzed"), data.len() as u64);
    let visited = visit_owners(&image, &limits, |path, uid, gid| owners.push((path.to_vec(), uid, gid)));
    visited.map(|()| owners).map_err(|error| assert!(error.to_string().starts_with("fuzzed: ")))
}
