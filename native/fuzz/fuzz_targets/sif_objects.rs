//! A SIF of any bytes: its objects lie inside it, its OCI image holds what its digests say, and its root is a part of it.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use platoon_squash::{oci, root_file_system, sif, Source, SquashError};

fuzz_target!(|data: &[u8]| {
    let image = Source::new(&data, Path::new("fuzzed"), data.len() as u64);
    let inside = |offset: u64, size: u64| offset.checked_add(size).is_some_and(|end| end <= data.len() as u64);
    let objects = told(sif::objects(&image));
    let found = told(oci(&image));
    if let Some(root) = told(root_file_system(&image)) {
        assert!(root.size_bytes() <= data.len() as u64);
    }
    let Some(objects) = objects else {
        assert!(found.is_none());
        return;
    };
    assert!(objects.iter().all(|object| inside(object.offset, object.size_bytes)));
    let Some(found) = found else { return };
    assert!(found.layers.iter().all(|layer| inside(layer.offset, layer.size_bytes)));
    for layer in &found.layers {
        assert!(objects.iter().any(|object| (object.offset, object.size_bytes) == (layer.offset, layer.size_bytes)));
    }
});

fn told<T>(result: Result<T, SquashError>) -> Option<T> {
    result.map_err(|error| assert!(error.to_string().starts_with("fuzzed: "))).ok()
}
