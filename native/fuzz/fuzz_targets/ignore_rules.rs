//! An ignore file, a NUL, a path: no text panics, and a last line that takes everything decides whatever stands above it.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use platoon_digest::IgnoreRules;

fuzz_target!(|data: &[u8]| {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let (text, path) = input.split_once('\0').unwrap_or((input, "a/b"));
    if path.is_empty() {
        return;
    }
    let Ok(rules) = IgnoreRules::parse(text, Path::new(".gitignore")) else { return };
    rules.is_ignored(path);
    for (last, expected) in [("*", true), ("!*", false)] {
        let rules = IgnoreRules::parse(&format!("{text}\n{last}"), Path::new(".gitignore")).expect("its lines parse");
        assert_eq!(rules.is_ignored(path), expected);
    }
});
