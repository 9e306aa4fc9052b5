//! The borrowed view of a row block, and the rules that every block keeps.

use crate::error::{check_length, RowsError};
use crate::runs::{are_finite, are_token_ids, are_zero, Run, Runs};
use crate::side::{check_side, Rows, Side};

/// The token was sampled by the row's policy and is trained.
pub const ACTION: u8 = 1;
/// The token's call reported an error.
pub const ERROR: u8 = 2;
/// The token was sampled as a plain message between agents, which is not trained.
pub const MESSAGE: u8 = 4;
/// The call index of a prompt token.
pub const NO_CALL: u32 = u32::MAX;

const SAMPLED: u8 = ACTION | MESSAGE;

/// Columns of one block. Token columns have one entry a token, `row_*` one a row, `call_*` one a model call.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    pub tokens: &'a [u32],
    pub logprobs: &'a [f32],
    pub flags: &'a [u8],
    pub call: &'a [u32],
    pub offsets: &'a [i64],
    pub call_policy: &'a [u16],
    pub call_version: &'a [i64],
    pub call_routing: &'a [i64],
    pub row_member: &'a [u32],
    pub row_trajectory: &'a [u32],
    pub row_policy: &'a [u16],
    pub row_role: &'a [u16],
    pub row_depth: &'a [u16],
    pub row_start: &'a [u8],
    pub row_reward: &'a [f64],
    pub row_version: &'a [i64],
    pub side: Side<'a>,
}

/// How many names each name table of a block holds.
#[derive(Debug, Clone, Copy)]
pub struct NameCounts {
    pub policies: usize,
    pub roles: usize,
    pub side: usize,
}

impl Block<'_> {
    /// Checks every rule of a block, run by run.
    pub fn check(&self, names: NameCounts) -> Result<(), RowsError> {
        self.check_lengths()?;
        check_offsets(self.offsets, self.tokens.len())?;
        self.check_calls(names.policies)?;
        self.check_token_ids()?;
        for (row, bounds) in self.offsets.windows(2).enumerate() {
            self.check_row(row, names.policies, names.roles)?;
            self.check_tokens(row, bounds[0] as usize, bounds[1] as usize)?;
        }
        self.check_side(names.side)
    }

    /// Checks lengths, offsets and the side table: what kernels need to stay within bounds, whatever the tokens hold.
    pub(crate) fn check_shape(&self) -> Result<(), RowsError> {
        self.check_lengths()?;
        check_offsets(self.offsets, self.tokens.len())?;
        self.check_side(usize::MAX)
    }

    fn check_side(&self, name_count: usize) -> Result<(), RowsError> {
        let rows = Rows { offsets: self.offsets, tokens: self.tokens, flags: self.flags };
        check_side(&self.side, &rows, name_count)
    }

    fn check_lengths(&self) -> Result<(), RowsError> {
        let tokens = self.tokens.len();
        check_length("logprobs", self.logprobs.len(), tokens)?;
        check_length("flags", self.flags.len(), tokens)?;
        check_length("call", self.call.len(), tokens)?;
        let rows = self.row_member.len();
        check_length("offsets", self.offsets.len(), rows + 1)?;
        check_length("row_trajectory", self.row_trajectory.len(), rows)?;
        check_length("row_policy", self.row_policy.len(), rows)?;
        check_length("row_role", self.row_role.len(), rows)?;
        check_length("row_depth", self.row_depth.len(), rows)?;
        check_length("row_start", self.row_start.len(), rows)?;
        check_length("row_reward", self.row_reward.len(), rows)?;
        check_length("row_version", self.row_version.len(), rows)?;
        let calls = self.call_policy.len();
        check_length("call_version", self.call_version.len(), calls)?;
        check_length("call_routing", self.call_routing.len(), calls)
    }

    fn check_calls(&self, policy_count: usize) -> Result<(), RowsError> {
        for (index, &policy) in self.call_policy.iter().enumerate() {
            if usize::from(policy) >= policy_count {
                return Err(RowsError::value("call_policy", index, policy, "names no policy of the block"));
            }
        }
        for (column, values) in [("call_version", self.call_version), ("call_routing", self.call_routing)] {
            if let Some(index) = values.iter().position(|&value| value < -1) {
                return Err(RowsError::value(column, index, values[index], "must be -1 (none) or more"));
            }
        }
        Ok(())
    }

    fn check_row(&self, row: usize, policy_count: usize, role_count: usize) -> Result<(), RowsError> {
        if usize::from(self.row_policy[row]) >= policy_count {
            return Err(RowsError::value("row_policy", row, self.row_policy[row], "names no policy of the block"));
        }
        if usize::from(self.row_role[row]) >= role_count {
            return Err(RowsError::value("row_role", row, self.row_role[row], "names no role of the block"));
        }
        if self.row_start[row] > 1 {
            return Err(RowsError::value("row_start", row, self.row_start[row], "must be 0 or 1"));
        }
        if !self.row_reward[row].is_finite() {
            return Err(RowsError::value("row_reward", row, self.row_reward[row], "must be finite"));
        }
        Ok(())
    }

    fn check_token_ids(&self) -> Result<(), RowsError> {
        if are_token_ids(self.tokens) {
            return Ok(());
        }
        let at = self.tokens.iter().position(|&token| token > i32::MAX as u32).unwrap_or_default();
        Err(RowsError::value("tokens", at, self.tokens[at], "must be below 2^31"))
    }

    fn check_tokens(&self, row: usize, start: usize, end: usize) -> Result<(), RowsError> {
        if self.flags[start] != 0 {
            return Err(RowsError::value("flags", start, self.flags[start], "a row begins with a prompt token"));
        }
        let mut oldest = i64::MAX;
        let mut has_action = false;
        for run in Runs::new(self.flags, self.call, start, end) {
            if run.flags == 0 {
                self.check_prompt(run)?;
            } else {
                oldest = oldest.min(self.check_sampled(row, run)?);
                has_action |= run.flags & ACTION != 0;
            }
        }
        let expected = if oldest == i64::MAX { -1 } else { oldest };
        if self.row_version[row] != expected {
            return Err(RowsError::value("row_version", row, self.row_version[row], "must be the oldest of its calls"));
        }
        if self.row_start[row] == 1 && !has_action {
            return Err(RowsError::value("row_start", row, 1, "a start has action tokens"));
        }
        Ok(())
    }

    fn check_prompt(&self, run: Run) -> Result<(), RowsError> {
        let (call, logprobs) = (&self.call[run.start..run.end], &self.logprobs[run.start..run.end]);
        if call.iter().fold(NO_CALL, |seen, &call| seen & call) != NO_CALL {
            let at = call.iter().position(|&call| call != NO_CALL).unwrap_or_default();
            return Err(RowsError::value("call", run.start + at, call[at], "a prompt token belongs to no call"));
        }
        if !are_zero(logprobs) {
            let at = logprobs.iter().position(|logprob| logprob.to_bits() != 0).unwrap_or_default();
            return Err(RowsError::value("logprobs", run.start + at, logprobs[at], "a prompt token has logprob 0"));
        }
        Ok(())
    }

    /// The version of the run's call, `i64::MAX` where it has none.
    fn check_sampled(&self, row: usize, run: Run) -> Result<i64, RowsError> {
        let is_one_kind = matches!(run.flags & SAMPLED, ACTION | MESSAGE);
        if !is_one_kind || run.flags > (ACTION | ERROR | MESSAGE) {
            return Err(RowsError::value("flags", run.start, run.flags, "a sampled token is an action or a message"));
        }
        let logprobs = &self.logprobs[run.start..run.end];
        if !are_finite(logprobs) {
            let at = logprobs.iter().position(|logprob| !logprob.is_finite()).unwrap_or_default();
            let rule = "a sampled token has a finite logprob";
            return Err(RowsError::value("logprobs", run.start + at, logprobs[at], rule));
        }
        self.version_of_call(row, run.start, run.call)
    }

    /// The version of a sampled token's call, `i64::MAX` where it has none.
    fn version_of_call(&self, row: usize, at: usize, call: u32) -> Result<i64, RowsError> {
        let index = call as usize;
        if index >= self.call_policy.len() {
            return Err(RowsError::value("call", at, call, "names no call of the block"));
        }
        if self.call_policy[index] != self.row_policy[row] {
            return Err(RowsError::value("call", at, call, "was sampled by another policy than its row's"));
        }
        let version = self.call_version[index];
        Ok(if version < 0 { i64::MAX } else { version })
    }
}

/// Checks that `offsets` cut `token_count` tokens into rows of at least one token.
pub(crate) fn check_offsets(offsets: &[i64], token_count: usize) -> Result<(), RowsError> {
    let Some(&first) = offsets.first() else {
        return Err(RowsError::Length { column: "offsets", got: 0, expected: 1 });
    };
    if first != 0 {
        return Err(RowsError::Offsets { index: 0, got: first, rule: "the first offset is 0" });
    }
    for index in 1..offsets.len() {
        if offsets[index] <= offsets[index - 1] {
            let rule = "a row holds at least one token";
            return Err(RowsError::Offsets { index, got: offsets[index], rule });
        }
    }
    let last = offsets[offsets.len() - 1];
    if u64::try_from(last) != Ok(token_count as u64) {
        let rule = "the last offset is the number of tokens";
        return Err(RowsError::Offsets { index: offsets.len() - 1, got: last, rule });
    }
    Ok(())
}
