//! A block that owns its columns, as kernels make it.

use crate::block::Block;
use crate::items::Items;
use crate::side::Side;

/// The columns of `Block`, with the items of its side table.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedBlock {
    pub tokens: Vec<u32>,
    pub logprobs: Vec<f32>,
    pub flags: Vec<u8>,
    pub call: Vec<u32>,
    pub offsets: Vec<i64>,
    pub call_policy: Vec<u16>,
    pub call_version: Vec<i64>,
    pub call_routing: Vec<i64>,
    pub row_member: Vec<u32>,
    pub row_trajectory: Vec<u32>,
    pub row_policy: Vec<u16>,
    pub row_role: Vec<u16>,
    pub row_depth: Vec<u16>,
    pub row_start: Vec<u8>,
    pub row_reward: Vec<f64>,
    pub row_version: Vec<i64>,
    pub side_row: Vec<u32>,
    pub side_at: Vec<u32>,
    pub side_length: Vec<u32>,
    pub side_name: Vec<u16>,
    pub side_item: Vec<u32>,
    pub items: Items,
}

impl OwnedBlock {
    /// A block without rows.
    pub fn new() -> Self {
        Self {
            tokens: Vec::new(),
            logprobs: Vec::new(),
            flags: Vec::new(),
            call: Vec::new(),
            offsets: vec![0],
            call_policy: Vec::new(),
            call_version: Vec::new(),
            call_routing: Vec::new(),
            row_member: Vec::new(),
            row_trajectory: Vec::new(),
            row_policy: Vec::new(),
            row_role: Vec::new(),
            row_depth: Vec::new(),
            row_start: Vec::new(),
            row_reward: Vec::new(),
            row_version: Vec::new(),
            side_row: Vec::new(),
            side_at: Vec::new(),
            side_length: Vec::new(),
            side_name: Vec::new(),
            side_item: Vec::new(),
            items: Items::default(),
        }
    }

    /// Makes room for what is known to come, so that no large column moves while it grows.
    pub fn reserve(&mut self, tokens: usize, calls: usize) {
        self.tokens.reserve_exact(tokens);
        self.logprobs.reserve_exact(tokens);
        self.flags.reserve_exact(tokens);
        self.call.reserve_exact(tokens);
        self.call_policy.reserve_exact(calls);
        self.call_version.reserve_exact(calls);
        self.call_routing.reserve_exact(calls);
    }

    pub fn view(&self) -> Block<'_> {
        Block {
            tokens: &self.tokens,
            logprobs: &self.logprobs,
            flags: &self.flags,
            call: &self.call,
            offsets: &self.offsets,
            call_policy: &self.call_policy,
            call_version: &self.call_version,
            call_routing: &self.call_routing,
            row_member: &self.row_member,
            row_trajectory: &self.row_trajectory,
            row_policy: &self.row_policy,
            row_role: &self.row_role,
            row_depth: &self.row_depth,
            row_start: &self.row_start,
            row_reward: &self.row_reward,
            row_version: &self.row_version,
            side: Side {
                row: &self.side_row,
                at: &self.side_at,
                length: &self.side_length,
                name: &self.side_name,
                item: &self.side_item,
                item_offsets: self.items.offsets(),
                item_bytes: self.items.bytes(),
            },
        }
    }
}

impl Default for OwnedBlock {
    fn default() -> Self {
        Self::new()
    }
}
