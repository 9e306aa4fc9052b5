//! The block digest against its published vectors.

use platoon_rows::{block_digest, Block, BLOCK_RULE};

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
        };
        block.check(vector.policies.len(), vector.roles.len()).expect("keeps the rules");
        let policies: Vec<&str> = vector.policies.iter().map(String::as_str).collect();
        let roles: Vec<&str> = vector.roles.iter().map(String::as_str).collect();
        let hex: String = block_digest(&block, &policies, &roles).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(format!("sha256:{hex}"), vector.digest, "{}", vector.name);
    }
}
