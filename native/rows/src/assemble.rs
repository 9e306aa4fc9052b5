//! From kept rows to the buffers that a training service takes.

use crate::block::check_offsets;
use crate::choose::row_indices;
use crate::error::{check_length, RowsError};

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

/// Shifts by one, scales, and gathers the rows named by `kept` in that order.
pub fn assemble(columns: TrainedTokens<'_>, offsets: &[i64], kept: &[i64], scale: f64) -> Result<Assembled, RowsError> {
    let count = columns.tokens.len();
    check_length("logprobs", columns.logprobs.len(), count)?;
    check_length("advantages", columns.advantages.len(), count)?;
    check_length("is_trained", columns.is_trained.len(), count)?;
    check_offsets(offsets, count)?;
    let spans = row_spans(offsets, kept)?;
    let targets: usize = spans.iter().map(|span| span.1 - span.0 - 1).sum();
    let mut out = Assembled {
        input_tokens_S: Vec::with_capacity(targets),
        target_tokens_S: Vec::with_capacity(targets),
        logprobs_S: Vec::with_capacity(targets),
        advantages_S: Vec::with_capacity(targets),
        is_trained_S: Vec::with_capacity(targets),
        offsets: Vec::with_capacity(spans.len() + 1),
    };
    out.offsets.push(0);
    for (start, end) in spans {
        let tokens = &columns.tokens[start..end];
        if let Some(index) = tokens.iter().position(|&token| token > i32::MAX as u32) {
            return Err(RowsError::value("tokens", start + index, tokens[index], "must be below 2^31"));
        }
        out.input_tokens_S.extend(tokens[..tokens.len() - 1].iter().map(|&token| token as i32));
        out.target_tokens_S.extend(tokens[1..].iter().map(|&token| i64::from(token)));
        out.logprobs_S.extend_from_slice(&columns.logprobs[start + 1..end]);
        out.advantages_S.extend(columns.advantages[start + 1..end].iter().map(|&value| scaled(value, scale)));
        out.is_trained_S.extend_from_slice(&columns.is_trained[start + 1..end]);
        out.offsets.push(out.target_tokens_S.len() as i64);
    }
    Ok(out)
}

/// A masked 0 stays 0 under a scale that is not finite.
fn scaled(value: f32, scale: f64) -> f32 {
    if value == 0.0 {
        value
    } else {
        (f64::from(value) * scale) as f32
    }
}

fn row_spans(offsets: &[i64], kept: &[i64]) -> Result<Vec<(usize, usize)>, RowsError> {
    let rows = row_indices("kept", kept, offsets.len() - 1)?;
    Ok(rows.into_iter().map(|row| (offsets[row] as usize, offsets[row + 1] as usize)).collect())
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
        let out = assemble(columns, &[0, 3, 4, 6], &[0, 1, 2], 0.5).unwrap();
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
            assert!(assemble(columns, &[0, 1, 2], kept, 1.0).is_err(), "{kept:?}");
        }
    }
}
