//! The digest of a row block, rule `platoon-row-block-v2` (`docs/reference/row-block.md`).

use sha2::{Digest, Sha256};

use crate::block::Block;
use crate::error::RowsError;
use crate::stored::Spans;

/// Names the stored columns, their order and the header; a change of any needs another name.
pub const BLOCK_RULE: &str = "platoon-row-block-v2";

#[cfg(target_endian = "big")]
compile_error!("columns are hashed as they lie in memory, which must be little-endian");

/// The name tables of a block.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    pub policies: &'a [&'a str],
    pub roles: &'a [&'a str],
    pub side: &'a [&'a str],
}

/// SHA-256 over the header and the stored columns of a checked block.
pub fn block_digest(block: &Block<'_>, names: Names<'_>) -> Result<[u8; 32], RowsError> {
    block.check_shape()?;
    let spans = Spans::of(block);
    let columns = rest_of_columns(block, &spans);
    let mut header = format!("{BLOCK_RULE}\n");
    for (kind, table) in [("policies", names.policies), ("roles", names.roles), ("side", names.side)] {
        header.push_str(&format!("{kind} {}\n", table.len()));
        for name in table {
            header.push_str(&format!("{} {name}\n", name.len()));
        }
    }
    header.push_str(&format!("tokens u32 {}\nlogprobs f32 {}\n", block.tokens.len(), spans.token_count()));
    for column in &columns {
        header.push_str(&format!("{} {} {}\n", column.name, column.dtype, column.length));
    }
    header.push('\n');
    let mut digest = Sha256::new();
    digest.update(header.as_bytes());
    digest.update(bytemuck::cast_slice::<_, u8>(block.tokens));
    for (&start, &end) in spans.start.iter().zip(&spans.end) {
        digest.update(bytemuck::cast_slice::<_, u8>(&block.logprobs[start as usize..end as usize]));
    }
    for column in columns {
        digest.update(column.bytes);
    }
    Ok(digest.finalize().into())
}

/// The columns after `tokens` and `logprobs`, in the order of the rule.
fn rest_of_columns<'a>(block: &Block<'a>, spans: &'a Spans) -> [Column<'a>; 23] {
    let side = &block.side;
    [
        column("span_start", "i64", &spans.start),
        column("span_end", "i64", &spans.end),
        column("span_call", "u32", &spans.call),
        column("span_flags", "u8", &spans.flags),
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
        column("side_row", "u32", side.row),
        column("side_at", "u32", side.at),
        column("side_length", "u32", side.length),
        column("side_name", "u16", side.name),
        column("side_item", "u32", side.item),
        column("item_offsets", "i64", side.item_offsets),
        column("item_bytes", "u8", side.item_bytes),
    ]
}

struct Column<'a> {
    name: &'static str,
    dtype: &'static str,
    length: usize,
    bytes: &'a [u8],
}

fn column<'a, T: bytemuck::NoUninit>(name: &'static str, dtype: &'static str, values: &'a [T]) -> Column<'a> {
    Column { name, dtype, length: values.len(), bytes: bytemuck::cast_slice(values) }
}
