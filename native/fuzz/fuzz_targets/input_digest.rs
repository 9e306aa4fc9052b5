//! A byte that sets the size of pieces, and a file: in pieces it has the digest that the rule gives it whole.
#![no_main]

use input_rule::{normalised, Pieces};
use libfuzzer_sys::fuzz_target;
use platoon_digest::input_digest_of;
use sha2::{Digest, Sha256};

#[path = "../../digest/tests/it/input_rule.rs"]
mod input_rule;

fuzz_target!(|data: &[u8]| {
    let Some((&size, bytes)) = data.split_first() else { return };
    let in_pieces = input_digest_of(Pieces { rest: bytes, size: usize::from(size) + 1 }).expect("memory reads");
    assert_eq!(in_pieces[..], Sha256::digest(normalised(bytes))[..]);
});
