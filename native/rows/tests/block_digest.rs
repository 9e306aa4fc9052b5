//! The block digest against its published vectors.

use platoon_rows::{block_digest, Block, NameCounts, Names, Side, BLOCK_RULE};

#[derive(serde::Deserialize)]
struct Vectors {
    rule: String,
    vectors: Vec<Vector>,
}

#[derive(serde::Deserialize)]
struct Vector {
    name: String,
    policies: Vec<String>,
    roles: Vec<String>,
    side_names: Vec<String>,
    columns: Columns,
    digest: String,
}

#[derive(serde::Deserialize)]
struct Columns {
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
    flags: Vec<u8>,
    call: Vec<u32>,
    offsets: Vec<i64>,
    call_policy: Vec<u16>,
    call_version: Vec<i64>,
    call_routing: Vec<i64>,
    row_member: Vec<u32>,
    row_trajectory: Vec<u32>,
    row_policy: Vec<u16>,
    row_role: Vec<u16>,
    row_depth: Vec<u16>,
    row_start: Vec<u8>,
    row_reward: Vec<f64>,
    row_version: Vec<i64>,
    side_row: Vec<u32>,
    side_at: Vec<u32>,
    side_length: Vec<u32>,
    side_name: Vec<u16>,
    side_item: Vec<u32>,
    item_offsets: Vec<i64>,
    item_bytes: Vec<u8>,
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

#[test]
fn published_vectors() {
    let vectors: Vectors = serde_json::from_str(include_str!("../vectors.json")).expect("vectors parse");
    assert_eq!(vectors.rule, BLOCK_RULE);
    for vector in &vectors.vectors {
        let columns = &vector.columns;
        let block = Block {
            tokens: &columns.tokens,
            logprobs: &columns.logprobs,
            flags: &columns.flags,
            call: &columns.call,
            offsets: &columns.offsets,
            call_policy: &columns.call_policy,
            call_version: &columns.call_version,
            call_routing: &columns.call_routing,
            row_member: &columns.row_member,
            row_trajectory: &columns.row_trajectory,
            row_policy: &columns.row_policy,
            row_role: &columns.row_role,
            row_depth: &columns.row_depth,
            row_start: &columns.row_start,
            row_reward: &columns.row_reward,
            row_version: &columns.row_version,
            side: Side {
                row: &columns.side_row,
                at: &columns.side_at,
                length: &columns.side_length,
                name: &columns.side_name,
                item: &columns.side_item,
                item_offsets: &columns.item_offsets,
                item_bytes: &columns.item_bytes,
            },
        };
        let counts =
            NameCounts { policies: vector.policies.len(), roles: vector.roles.len(), side: vector.side_names.len() };
        block.check(counts).expect("keeps the rules");
        let (policies, roles, side) = (texts(&vector.policies), texts(&vector.roles), texts(&vector.side_names));
        let names = Names { policies: &policies, roles: &roles, side: &side };
        let digest = block_digest(&block, names).expect("keeps the rules");
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(format!("sha256:{hex}"), vector.digest, "{}", vector.name);
    }
}
