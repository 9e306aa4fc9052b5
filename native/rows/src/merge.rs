//! From model calls to rows: calls whose prompts extend what came before share a row.

use crate::block::{ACTION, ERROR, MESSAGE, NO_CALL};
use crate::error::{check_length, RowsError};

/// The agent whose calls follow.
#[derive(Debug, Clone, Copy)]
pub struct Trajectory {
    pub member: u32,
    pub trajectory: u32,
    pub role: u16,
    pub depth: u16,
    pub reward: f64,
}

/// One model call: the exact prompt and what was sampled after it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub prompt: &'a [u32],
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

/// The columns of a block, owned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Merged {
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
}

/// The row that calls are being added to: everything since `start` in the token columns.
#[derive(Debug, Clone, Copy)]
struct OpenRow {
    start: usize,
    policy: u16,
    oldest_version: i64,
    has_action: bool,
}

/// Builds the rows of trajectory after trajectory, call by call. It keeps each token of a row once, however often prompts repeat it.
#[derive(Debug, Clone)]
pub struct Merger {
    columns: Merged,
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
        let columns = Merged { offsets: vec![0], ..Merged::default() };
        Self { columns, trajectory: None, row: None, has_started: false }
    }

    /// Ends the trajectory before it; the calls that follow belong to this one.
    pub fn begin(&mut self, trajectory: Trajectory) {
        self.flush();
        self.trajectory = Some(trajectory);
        self.has_started = false;
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
        let known = match self.row {
            Some(row) if row.policy == call.policy && call.prompt.starts_with(&self.columns.tokens[row.start..]) => {
                self.columns.tokens.len() - row.start
            }
            _ => 0,
        };
        // What the row holds was checked when it came.
        check_token_ids("prompt", call.prompt, known)?;
        check_token_ids("action", call.action, 0)?;
        if known == 0 {
            self.flush();
        }
        self.append(call, known, index);
        Ok(())
    }

    /// Ends the last trajectory and hands over the columns.
    pub fn finish(mut self) -> Merged {
        self.flush();
        self.columns
    }

    fn append(&mut self, call: &Call<'_>, known: usize, index: u32) {
        let start = self.columns.tokens.len() - known;
        let suffix = &call.prompt[known..];
        let sampled = if call.is_message { MESSAGE } else { ACTION } | if call.is_error { ERROR } else { 0 };
        let columns = &mut self.columns;
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
        let row = self.row.get_or_insert(OpenRow { start, policy: call.policy, oldest_version: -1, has_action: false });
        row.has_action |= !call.is_message;
        row.oldest_version = older(row.oldest_version, call.version);
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
    if let Some(index) = call.logprobs.iter().position(|logprob| !logprob.is_finite()) {
        return Err(RowsError::value("logprobs", index, call.logprobs[index], "a sampled token has a finite logprob"));
    }
    Ok(())
}

/// Checks `tokens` from `start` on. The maximum is found without a branch a token; only a refusal looks for its place.
fn check_token_ids(column: &'static str, tokens: &[u32], start: usize) -> Result<(), RowsError> {
    let is_id = |token: u32| token <= i32::MAX as u32;
    if is_id(tokens[start..].iter().fold(0, |largest, &token| largest.max(token))) {
        return Ok(());
    }
    let index = tokens.iter().position(|&token| !is_id(token)).unwrap_or(start);
    Err(RowsError::value(column, index, tokens[index], "must be below 2^31"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Trajectory = Trajectory { member: 3, trajectory: 0, role: 0, depth: 0, reward: 1.0 };

    fn call<'a>(prompt: &'a [u32], action: &'a [u32], logprobs: &'a [f32]) -> Call<'a> {
        Call { prompt, action, logprobs, policy: 0, version: 5, routing: -1, is_error: false, is_message: false }
    }

    #[test]
    fn prompts_that_extend_share_a_row_and_others_open_one() {
        let mut merger = Merger::new();
        merger.begin(ROOT);
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
        merger.begin(ROOT);
        merger.push(&call(&[1], &[2], &[0.0])).unwrap();
        merger.push(&Call { policy: 1, ..call(&[1, 2], &[3], &[0.0]) }).unwrap();
        assert_eq!(merger.finish().row_policy, [0, 1]);
    }

    #[test]
    fn a_message_is_no_start_and_a_call_without_tokens_is_nothing() {
        let mut merger = Merger::new();
        merger.begin(ROOT);
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
        merger.begin(ROOT);
        assert!(merger.push(&call(&[], &[2], &[0.0])).unwrap_err().is_shape());
        assert!(merger.push(&call(&[1], &[2], &[])).unwrap_err().is_shape());
        assert!(merger.push(&call(&[1], &[2], &[f32::NAN])).is_err());
        assert!(merger.push(&call(&[u32::MAX], &[2], &[0.0])).is_err());
        assert_eq!(merger.finish(), Merger::new().finish());
    }
}
