//! The digest of a row block, rule `platoon-row-block-v1` (`docs/reference/row-block.md`).

use sha2::{Digest, Sha256};

use crate::block::Block;

/// Names the columns, their order and the header; a change of any needs another name.
pub const BLOCK_RULE: &str = "platoon-row-block-v1";

#[cfg(target_endian = "big")]
compile_error!("columns are hashed as they lie in memory, which must be little-endian");

/// SHA-256 over the header and the raw columns of a checked block.
pub fn block_digest(block: &Block<'_>, policies: &[&str], roles: &[&str]) -> [u8; 32] {
    let columns: [(&str, &str, usize, &[u8]); 16] = [
        column("tokens", "u32", block.tokens),
        column("logprobs", "f32", block.logprobs),
        column("flags", "u8", block.flags),
        column("call", "u32", block.call),
        column("offsets", "i64", block.offsets),
        column("call_policy", "u16", block.call_policy),
        column("call_version", "i64", block.call_version),
        column("call_routing", "i64", block.call_routing),
        column("row_member", "u32", block.row_member),
        column("row_trajectory", "u32", block.row_trajectory),
        column("row_policy", "u16", block.row_policy),
        column("row_role", "u16", block.row_role),
        column("row_depth", "u16", block.row_depth),
        column("row_start", "u8", block.row_start),
        column("row_reward", "f64", block.row_reward),
        column("row_version", "i64", block.row_version),
    ];
    let mut header = format!("{BLOCK_RULE}\n");
    for (kind, names) in [("policies", policies), ("roles", roles)] {
        header.push_str(&format!("{kind} {}\n", names.len()));
        for name in names {
            header.push_str(&format!("{} {name}\n", name.len()));
        }
    }
    for (name, dtype, length, _) in &columns {
        header.push_str(&format!("{name} {dtype} {length}\n"));
    }
    header.push('\n');
    let mut digest = Sha256::new();
    digest.update(header.as_bytes());
    for (_, _, _, bytes) in columns {
        digest.update(bytes);
    }
    digest.finalize().into()
}

fn column<'a, T: bytemuck::NoUninit>(
    name: &'static str,
    dtype: &'static str,
    values: &'a [T],
) -> (&'static str, &'static str, usize, &'a [u8]) {
    (name, dtype, values.len(), bytemuck::cast_slice(values))
}
