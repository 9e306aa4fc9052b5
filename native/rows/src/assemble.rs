//! From kept rows to the buffers that a training service takes.

use std::ops::Range;

use crate::apply::scaled_value;
use crate::block::check_offsets;
use crate::choose::row_indices;
use crate::error::{check_length, RowsError};
use crate::parts::{cut_off, parts_of_rows, run_parts, Threads};
use crate::runs::are_token_ids;

/// One entry a target: row after row, each a token shorter than the row it comes from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assembled {
    /// The tokens a row is read from, its last left out.
    pub input_tokens_S: Vec<i32>,
    /// The tokens a row is trained towards, its first left out.
    pub target_tokens_S: Vec<i64>,
    pub logprobs_S: Vec<f32>,
    /// Already multiplied by the scale.
    pub advantages_S: Vec<f32>,
    pub is_trained_S: Vec<bool>,
    /// Bounds of each row's targets.
    pub offsets: Vec<i64>,
}

/// Token columns that `assemble` reads; all of one length.
#[derive(Debug, Clone, Copy)]
pub struct TrainedTokens<'a> {
    pub tokens: &'a [u32],
    pub logprobs: &'a [f32],
    pub advantages: &'a [f32],
    pub is_trained: &'a [bool],
}

/// Shifts by one, scales, and gathers the rows named by `kept` in that order. `threads` share the rows.
pub fn assemble(
    columns: TrainedTokens<'_>,
    offsets: &[i64],
    kept: &[i64],
    scale: f64,
    threads: Threads,
) -> Result<Assembled, RowsError> {
    let count = columns.tokens.len();
    check_length("logprobs", columns.logprobs.len(), count)?;
    check_length("advantages", columns.advantages.len(), count)?;
    check_length("is_trained", columns.is_trained.len(), count)?;
    check_offsets(offsets, count)?;
    let spans = row_spans(offsets, kept)?;
    check_tokens(columns.tokens, &spans)?;
    let targets: usize = spans.iter().map(|span| span.len() - 1).sum();
    let mut out = Assembled {
        input_tokens_S: vec![0; targets],
        target_tokens_S: vec![0; targets],
        logprobs_S: vec![0.0; targets],
        advantages_S: vec![0.0; targets],
        is_trained_S: vec![false; targets],
        offsets: Vec::with_capacity(spans.len() + 1),
    };
    out.offsets.push(0);
    out.offsets.extend(spans.iter().scan(0, |end, span| {
        *end += (span.len() - 1) as i64;
        Some(*end)
    }));
    let mut left = Targets {
        input_tokens: &mut out.input_tokens_S,
        target_tokens: &mut out.target_tokens_S,
        logprobs: &mut out.logprobs_S,
        advantages: &mut out.advantages_S,
        is_trained: &mut out.is_trained_S,
    };
    let cut = |rows: Range<usize>| {
        let targets = (out.offsets[rows.end] - out.offsets[rows.start]) as usize;
        (&spans[rows], left.cut_off(targets))
    };
    let parts = parts_of_rows(&out.offsets, threads).into_iter().map(cut).collect();
    run_parts(parts, |(spans, mut targets): (&[Range<usize>], Targets<'_>)| {
        for span in spans {
            targets.cut_off(span.len() - 1).fill(columns, span.clone(), scale);
        }
    });
    Ok(out)
}

/// Where the targets of some rows go.
struct Targets<'a> {
    input_tokens: &'a mut [i32],
    target_tokens: &'a mut [i64],
    logprobs: &'a mut [f32],
    advantages: &'a mut [f32],
    is_trained: &'a mut [bool],
}

impl<'a> Targets<'a> {
    fn cut_off(&mut self, length: usize) -> Targets<'a> {
        Targets {
            input_tokens: cut_off(&mut self.input_tokens, length),
            target_tokens: cut_off(&mut self.target_tokens, length),
            logprobs: cut_off(&mut self.logprobs, length),
            advantages: cut_off(&mut self.advantages, length),
            is_trained: cut_off(&mut self.is_trained, length),
        }
    }

    fn fill(self, columns: TrainedTokens<'_>, span: Range<usize>, scale: f64) {
        let tokens = &columns.tokens[span.clone()];
        let targets = span.start + 1..span.end;
        self.input_tokens.iter_mut().zip(tokens).for_each(|(place, &token)| *place = token as i32);
        self.target_tokens.iter_mut().zip(&tokens[1..]).for_each(|(place, &token)| *place = i64::from(token));
        self.logprobs.copy_from_slice(&columns.logprobs[targets.clone()]);
        let advantages = self.advantages.iter_mut().zip(&columns.advantages[targets.clone()]);
        advantages.for_each(|(place, &value)| *place = scaled_value(value, scale));
        self.is_trained.copy_from_slice(&columns.is_trained[targets]);
    }
}

fn check_tokens(tokens: &[u32], spans: &[Range<usize>]) -> Result<(), RowsError> {
    match spans.iter().find(|span| !are_token_ids(&tokens[span.start..span.end])) {
        Some(span) => {
            let index = span.clone().find(|&index| tokens[index] > i32::MAX as u32).unwrap_or(span.start);
            Err(RowsError::value("tokens", index, tokens[index], "must be below 2^31"))
        }
        None => Ok(()),
    }
}

fn row_spans(offsets: &[i64], kept: &[i64]) -> Result<Vec<Range<usize>>, RowsError> {
    let rows = row_indices("kept", kept, offsets.len() - 1)?;
    Ok(rows.into_iter().map(|row| offsets[row] as usize..offsets[row + 1] as usize).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_shifted_scaled_and_gathered() {
        let columns = TrainedTokens {
            tokens: &[1, 2, 3, 4, 5, 6],
            logprobs: &[0.0, -0.5, -0.25, 0.0, 0.0, -1.0],
            advantages: &[0.0, 2.0, -2.0, 0.0, 0.0, 4.0],
            is_trained: &[false, true, true, false, false, true],
        };
        let out = assemble(columns, &[0, 3, 4, 6], &[0, 1, 2], 0.5, Threads::up_to(1)).unwrap();
        assert_eq!(out.input_tokens_S, [1, 2, 5]);
        assert_eq!(out.target_tokens_S, [2, 3, 6]);
        assert_eq!(out.logprobs_S, [-0.5, -0.25, -1.0]);
        assert_eq!(out.advantages_S, [1.0, -1.0, 2.0]);
        assert_eq!(out.is_trained_S, [true; 3]);
        assert_eq!(out.offsets, [0, 2, 2, 3]);
    }

    #[test]
    fn rows_are_named_once_in_order_and_exist() {
        let columns =
            TrainedTokens { tokens: &[1, 2], logprobs: &[0.0; 2], advantages: &[0.0; 2], is_trained: &[false; 2] };
        for kept in [&[1, 0][..], &[0, 0], &[2], &[-1]] {
            assert!(assemble(columns, &[0, 1, 2], kept, 1.0, Threads::up_to(1)).is_err(), "{kept:?}");
        }
    }
}
