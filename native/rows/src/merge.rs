//! From model calls to rows: calls whose prompts extend what came before share a row.

use crate::block::{ACTION, ERROR, MESSAGE, NO_CALL};
use crate::error::{check_length, RowsError};
use crate::owned::OwnedBlock;
use crate::runs::{are_finite, are_token_ids};

/// The agent whose calls follow.
#[derive(Debug, Clone, Copy)]
pub struct Trajectory {
    pub member: u32,
    pub trajectory: u32,
    pub role: u16,
    pub depth: u16,
    pub reward: f64,
}

/// A piece of a prompt that is not text. The tokens it covers are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// First token covered, counted from the start of the prompt.
    pub at: u32,
    pub length: u32,
    /// Index into the side names of the block.
    pub name: u16,
    pub data: &'a [u8],
}

/// One model call: the exact prompt and what was sampled after it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub prompt: &'a [u32],
    /// By place, not overlapping.
    pub chunks: &'a [Chunk<'a>],
    pub action: &'a [u32],
    pub logprobs: &'a [f32],
    pub policy: u16,
    /// Policy version, -1 for none.
    pub version: i64,
    /// Routing handle of the service, -1 for none.
    pub routing: i64,
    pub is_error: bool,
    pub is_message: bool,
}

/// The row that calls are being added to: everything since `start` in the token columns.
#[derive(Debug, Clone, Copy)]
struct OpenRow {
    start: usize,
    /// Its first entry in the side table.
    side_start: usize,
    policy: u16,
    oldest_version: i64,
    has_action: bool,
}

/// Builds the rows of trajectory after trajectory, call by call. It keeps each token of a row once, however often prompts repeat it.
#[derive(Debug, Clone)]
pub struct Merger {
    columns: OwnedBlock,
    trajectory: Option<Trajectory>,
    row: Option<OpenRow>,
    has_started: bool,
}

impl Default for Merger {
    fn default() -> Self {
        Self::new()
    }
}

impl Merger {
    pub fn new() -> Self {
        Self { columns: OwnedBlock::new(), trajectory: None, row: None, has_started: false }
    }

    /// Makes room for what is known to come.
    pub fn reserve(&mut self, tokens: usize, calls: usize) {
        self.columns.reserve(tokens, calls);
    }

    /// Ends the trajectory before it; the calls that follow belong to this one.
    pub fn begin(&mut self, trajectory: Trajectory) -> Result<(), RowsError> {
        if !trajectory.reward.is_finite() {
            return Err(RowsError::value(
                "row_reward",
                self.columns.row_reward.len(),
                trajectory.reward,
                "must be finite",
            ));
        }
        self.flush();
        self.trajectory = Some(trajectory);
        self.has_started = false;
        Ok(())
    }

    /// Adds a call. One that sampled nothing adds nothing; one with another policy, or whose prompt does not extend the open row, opens
    /// a row. Checks everything before it changes anything.
    pub fn push(&mut self, call: &Call<'_>) -> Result<(), RowsError> {
        if self.trajectory.is_none() {
            return Err(RowsError::Rule { rule: "a call needs a trajectory that has begun" });
        }
        check_call(call)?;
        if call.action.is_empty() {
            return Ok(());
        }
        let index = u32::try_from(self.columns.call_policy.len()).unwrap_or(NO_CALL);
        if index == NO_CALL {
            return Err(RowsError::Rule { rule: "a block holds fewer than 2^32 - 1 calls" });
        }
        let row = self.row.filter(|row| row.policy == call.policy && self.is_extended(row, call));
        let known = row.map_or(0, |row| self.columns.tokens.len() - row.start);
        // What the row holds was checked when it came.
        check_token_ids("prompt", call.prompt, known)?;
        check_token_ids("action", call.action, 0)?;
        check_chunks(call)?;
        if known == 0 {
            self.flush();
        }
        self.append(call, known, index);
        Ok(())
    }

    /// Ends the last trajectory and hands over the columns.
    pub fn finish(mut self) -> OwnedBlock {
        self.flush();
        self.columns
    }

    /// True where the prompt begins with all that the row holds, chunks included.
    fn is_extended(&self, row: &OpenRow, call: &Call<'_>) -> bool {
        let columns = &self.columns;
        let tokens = &columns.tokens[row.start..];
        if !call.prompt.starts_with(tokens) {
            return false;
        }
        let known = call.chunks.partition_point(|chunk| (chunk.at as usize) < tokens.len());
        let entries = row.side_start..columns.side_row.len();
        known == entries.len()
            && call.chunks.iter().zip(entries).all(|(chunk, entry)| {
                (chunk.at, chunk.length) == (columns.side_at[entry], columns.side_length[entry])
                    && chunk.name == columns.side_name[entry]
                    && chunk.data == columns.items.get(columns.side_item[entry])
            })
    }

    fn append(&mut self, call: &Call<'_>, known: usize, index: u32) {
        let columns = &mut self.columns;
        let start = columns.tokens.len() - known;
        let row = self.row.get_or_insert(OpenRow {
            start,
            side_start: columns.side_row.len(),
            policy: call.policy,
            oldest_version: -1,
            has_action: false,
        });
        row.has_action |= !call.is_message;
        row.oldest_version = older(row.oldest_version, call.version);
        for chunk in &call.chunks[columns.side_row.len() - row.side_start..] {
            columns.side_row.push((columns.offsets.len() - 1) as u32);
            columns.side_at.push(chunk.at);
            columns.side_length.push(chunk.length);
            columns.side_name.push(chunk.name);
            columns.side_item.push(columns.items.insert(chunk.data));
        }
        let suffix = &call.prompt[known..];
        let sampled = if call.is_message { MESSAGE } else { ACTION } | if call.is_error { ERROR } else { 0 };
        columns.tokens.extend_from_slice(suffix);
        columns.tokens.extend_from_slice(call.action);
        let prompt_end = columns.logprobs.len() + suffix.len();
        let end = prompt_end + call.action.len();
        columns.logprobs.resize(prompt_end, 0.0);
        columns.logprobs.extend_from_slice(call.logprobs);
        columns.flags.resize(prompt_end, 0);
        columns.flags.resize(end, sampled);
        columns.call.resize(prompt_end, NO_CALL);
        columns.call.resize(end, index);
        columns.call_policy.push(call.policy);
        columns.call_version.push(call.version);
        columns.call_routing.push(call.routing);
    }

    fn flush(&mut self) {
        let (Some(row), Some(trajectory)) = (self.row.take(), self.trajectory) else { return };
        let is_start = row.has_action && !self.has_started;
        self.has_started |= row.has_action;
        let columns = &mut self.columns;
        columns.offsets.push(columns.tokens.len() as i64);
        columns.row_member.push(trajectory.member);
        columns.row_trajectory.push(trajectory.trajectory);
        columns.row_policy.push(row.policy);
        columns.row_role.push(trajectory.role);
        columns.row_depth.push(trajectory.depth);
        columns.row_start.push(u8::from(is_start));
        columns.row_reward.push(trajectory.reward);
        columns.row_version.push(row.oldest_version);
    }
}

/// The older of two versions, where -1 is none.
fn older(left: i64, right: i64) -> i64 {
    match (left, right) {
        (-1, other) | (other, -1) => other,
        (left, right) => left.min(right),
    }
}

fn check_call(call: &Call<'_>) -> Result<(), RowsError> {
    check_length("logprobs", call.logprobs.len(), call.action.len())?;
    if call.prompt.is_empty() {
        return Err(RowsError::Length { column: "prompt", got: 0, expected: 1 });
    }
    if call.version < -1 {
        return Err(RowsError::value("version", 0, call.version, "must be -1 (none) or more"));
    }
    if call.routing < -1 {
        return Err(RowsError::value("routing", 0, call.routing, "must be -1 (none) or more"));
    }
    if !are_finite(call.logprobs) {
        let index = call.logprobs.iter().position(|logprob| !logprob.is_finite()).unwrap_or_default();
        return Err(RowsError::value("logprobs", index, call.logprobs[index], "a sampled token has a finite logprob"));
    }
    Ok(())
}

/// Checks `tokens` from `start` on; only a refusal looks for the place.
fn check_token_ids(column: &'static str, tokens: &[u32], start: usize) -> Result<(), RowsError> {
    if are_token_ids(&tokens[start..]) {
        return Ok(());
    }
    let index = tokens.iter().position(|&token| token > i32::MAX as u32).unwrap_or(start);
    Err(RowsError::value(column, index, tokens[index], "must be below 2^31"))
}

fn check_chunks(call: &Call<'_>) -> Result<(), RowsError> {
    let mut end = 0;
    for (index, chunk) in call.chunks.iter().enumerate() {
        if chunk.at < end {
            return Err(RowsError::value("chunks", index, chunk.at, "chunks rise and do not overlap"));
        }
        let stop = chunk.at.checked_add(chunk.length).filter(|&stop| stop > chunk.at);
        let Some(covered) = stop.and_then(|stop| call.prompt.get(chunk.at as usize..stop as usize)) else {
            return Err(RowsError::value("chunks", index, chunk.length, "a chunk covers tokens of its prompt"));
        };
        if covered.iter().any(|&token| token != 0) {
            return Err(RowsError::value("chunks", index, chunk.at, "the tokens of a chunk are 0"));
        }
        end = chunk.at + chunk.length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::NameCounts;

    const ROOT: Trajectory = Trajectory { member: 3, trajectory: 0, role: 0, depth: 0, reward: 1.0 };

    fn call<'a>(prompt: &'a [u32], action: &'a [u32], logprobs: &'a [f32]) -> Call<'a> {
        Call {
            prompt,
            chunks: &[],
            action,
            logprobs,
            policy: 0,
            version: 5,
            routing: -1,
            is_error: false,
            is_message: false,
        }
    }

    #[test]
    fn prompts_that_extend_share_a_row_and_others_open_one() {
        let mut merger = Merger::new();
        merger.begin(ROOT).unwrap();
        merger.push(&call(&[1, 2], &[3], &[-0.5])).unwrap();
        merger.push(&Call { version: 4, ..call(&[1, 2, 3, 4], &[5, 6], &[-0.1, -0.2]) }).unwrap();
        merger.push(&call(&[1, 9], &[7], &[-0.3])).unwrap();
        let merged = merger.finish();
        assert_eq!(merged.tokens, [1, 2, 3, 4, 5, 6, 1, 9, 7]);
        assert_eq!(merged.flags, [0, 0, 1, 0, 1, 1, 0, 0, 1]);
        assert_eq!(merged.call, [NO_CALL, NO_CALL, 0, NO_CALL, 1, 1, NO_CALL, NO_CALL, 2]);
        assert_eq!(merged.offsets, [0, 6, 9]);
        assert_eq!(merged.row_version, [4, 5]);
        assert_eq!(merged.row_start, [1, 0]);
    }

    #[test]
    fn another_policy_opens_a_row_even_where_the_prompt_extends() {
        let mut merger = Merger::new();
        merger.begin(ROOT).unwrap();
        merger.push(&call(&[1], &[2], &[0.0])).unwrap();
        merger.push(&Call { policy: 1, ..call(&[1, 2], &[3], &[0.0]) }).unwrap();
        assert_eq!(merger.finish().row_policy, [0, 1]);
    }

    #[test]
    fn a_message_is_no_start_and_a_call_without_tokens_is_nothing() {
        let mut merger = Merger::new();
        merger.begin(ROOT).unwrap();
        merger.push(&Call { is_message: true, is_error: true, ..call(&[1], &[2], &[0.0]) }).unwrap();
        merger.push(&call(&[8], &[], &[])).unwrap();
        merger.push(&call(&[9], &[2], &[0.0])).unwrap();
        let merged = merger.finish();
        assert_eq!(merged.flags, [0, MESSAGE | ERROR, 0, ACTION]);
        assert_eq!(merged.row_start, [0, 1]);
        assert_eq!(merged.call_policy.len(), 2);
    }

    #[test]
    fn refusals_change_nothing() {
        let mut merger = Merger::new();
        assert!(merger.push(&call(&[1], &[2], &[0.0])).is_err());
        merger.begin(ROOT).unwrap();
        assert!(merger.push(&call(&[], &[2], &[0.0])).unwrap_err().is_shape());
        assert!(merger.push(&call(&[1], &[2], &[])).unwrap_err().is_shape());
        assert!(merger.push(&call(&[1], &[2], &[f32::NAN])).is_err());
        assert!(merger.push(&call(&[u32::MAX], &[2], &[0.0])).is_err());
        assert_eq!(merger.finish(), Merger::new().finish());
    }

    #[test]
    fn a_prompt_extends_a_row_only_with_the_same_chunks() {
        let image = Chunk { at: 1, length: 2, name: 0, data: b"png" };
        let first = [1, 0, 0, 5];
        let next = [1, 0, 0, 5, 6, 0, 7];
        for (chunks, rows) in [
            (vec![image], 1),
            (vec![image, Chunk { at: 5, length: 1, ..image }], 1),
            (vec![], 2),
            (vec![Chunk { data: b"other", ..image }], 2),
            (vec![Chunk { name: 1, ..image }], 2),
            (vec![Chunk { length: 1, ..image }], 2),
        ] {
            let mut merger = Merger::new();
            merger.begin(ROOT).unwrap();
            merger.push(&Call { chunks: &[image], ..call(&first, &[6], &[-0.5]) }).unwrap();
            merger.push(&Call { chunks: &chunks, ..call(&next, &[8], &[-0.5]) }).unwrap();
            let merged = merger.finish();
            assert_eq!(merged.row_member.len(), rows, "{chunks:?}");
            assert_eq!(merged.view().check(NameCounts { policies: 1, roles: 1, side: 2 }), Ok(()));
        }
    }

    #[test]
    fn chunks_that_do_not_fit_are_refused() {
        let chunk = Chunk { at: 0, length: 1, name: 0, data: b"" };
        let mut merger = Merger::new();
        merger.begin(ROOT).unwrap();
        for chunks in [
            vec![chunk, chunk],
            vec![Chunk { length: 0, ..chunk }],
            vec![Chunk { length: 3, ..chunk }],
            vec![Chunk { at: 1, ..chunk }],
            vec![Chunk { at: 1, length: u32::MAX, ..chunk }],
        ] {
            assert!(merger.push(&Call { chunks: &chunks, ..call(&[0, 1], &[2], &[0.0]) }).is_err(), "{chunks:?}");
        }
        assert!(merger.begin(Trajectory { reward: f64::NAN, ..ROOT }).is_err());
    }
}
