//! From credit to tokens: advantages on action tokens, zero everywhere else.

use std::ops::Range;

use crate::block::{check_offsets, ACTION, ERROR};
use crate::error::{check_length, RowsError};
use crate::parts::{cut_off, parts_of_rows, run_parts, Threads};

const FINITE: &str = "must be finite in single precision";

/// What an estimator returned.
#[derive(Debug, Clone, Copy)]
pub enum Advantages<'a> {
    /// One value a row.
    PerRow(&'a [f64]),
    /// One value a token; values off the action tokens are not read.
    PerToken(&'a [f32]),
}

/// What error suppression saw and did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErrorCounters {
    pub detected_action_tokens: u64,
    pub suppressed_positive_action_tokens: u64,
    pub retained_nonpositive_action_tokens: u64,
    /// Rows that had action tokens and keep none.
    pub emptied_rows: u64,
}

/// Advantages on tokens, and which tokens train.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// Exactly 0 wherever `is_trained_T` is false.
    pub advantages_T: Vec<f32>,
    pub is_trained_T: Vec<bool>,
    pub totals: RowTotals,
    pub counters: ErrorCounters,
}

/// Per row: how many tokens train, and whether any has an advantage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowTotals {
    pub trained_tokens_R: Vec<i64>,
    /// True where every trained token's advantage is exactly 0, and where no token trains.
    pub is_zero_R: Vec<bool>,
}

/// Puts advantages on action tokens. With `suppress_errors`, a token whose call reported an error and whose advantage is positive trains
/// no more: an error must not be rewarded. What is put on a token must be finite in single precision. `threads` share the rows.
pub fn apply_advantages(
    flags: &[u8],
    offsets: &[i64],
    advantages: Advantages<'_>,
    suppress_errors: bool,
    threads: Threads,
) -> Result<Applied, RowsError> {
    check_offsets(offsets, flags.len())?;
    match advantages {
        Advantages::PerRow(values) => {
            check_length("advantages", values.len(), offsets.len() - 1)?;
            if let Some(row) = values.iter().position(|&value| !(value as f32).is_finite()) {
                return Err(RowsError::value("advantages", row, values[row], FINITE));
            }
        }
        Advantages::PerToken(values) => check_length("advantages", values.len(), flags.len())?,
    }
    let (mut advantages_T, mut is_trained_T) = (vec![0f32; flags.len()], vec![false; flags.len()]);
    let (mut advantages_left, mut is_trained_left) = (advantages_T.as_mut_slice(), is_trained_T.as_mut_slice());
    let cut = |rows: Range<usize>| {
        let tokens = (offsets[rows.end] - offsets[rows.start]) as usize;
        (rows, cut_off(&mut advantages_left, tokens), cut_off(&mut is_trained_left, tokens))
    };
    let parts = parts_of_rows(offsets, threads).into_iter().map(cut).collect();
    let results = run_parts(parts, |(rows, advantages_T, is_trained_T)| {
        apply_to_rows(
            flags,
            &offsets[rows.start..=rows.end],
            rows.start,
            advantages,
            suppress_errors,
            (advantages_T, is_trained_T),
        )
    });
    let mut counters = ErrorCounters::default();
    let mut totals = RowTotals { trained_tokens_R: Vec::new(), is_zero_R: Vec::new() };
    for result in results {
        let (part_totals, part_counters) = result?;
        totals.trained_tokens_R.extend(part_totals.trained_tokens_R);
        totals.is_zero_R.extend(part_totals.is_zero_R);
        counters.add(&part_counters);
    }
    Ok(Applied { advantages_T, is_trained_T, totals, counters })
}

/// The rows that `offsets` bounds, the first of which is row `first` of the block; `out` begins with its first token.
fn apply_to_rows(
    flags: &[u8],
    offsets: &[i64],
    first: usize,
    advantages: Advantages<'_>,
    suppress_errors: bool,
    out: (&mut [f32], &mut [bool]),
) -> Result<(RowTotals, ErrorCounters), RowsError> {
    let (mut advantages_left, mut is_trained_left) = out;
    let rows = offsets.len() - 1;
    let mut totals = RowTotals { trained_tokens_R: Vec::with_capacity(rows), is_zero_R: Vec::with_capacity(rows) };
    let mut counters = ErrorCounters::default();
    for (row, bounds) in offsets.windows(2).enumerate() {
        let span = bounds[0] as usize..bounds[1] as usize;
        let tokens = RowTokens {
            flags: &flags[span.clone()],
            advantages: cut_off(&mut advantages_left, span.len()),
            is_trained: cut_off(&mut is_trained_left, span.len()),
        };
        let counts = match advantages {
            Advantages::PerRow(values) => tokens.apply_one(values[first + row] as f32, suppress_errors),
            Advantages::PerToken(values) => tokens.apply_each(&values[span], suppress_errors),
        };
        if let Some((at, value)) = counts.endless {
            return Err(RowsError::value("advantages", bounds[0] as usize + at, value, FINITE));
        }
        totals.trained_tokens_R.push(counts.trained as i64);
        totals.is_zero_R.push(counts.nonzero == 0);
        counters.add_row(&counts);
    }
    Ok((totals, counters))
}

/// One row of the columns that advantages are applied to.
struct RowTokens<'a> {
    flags: &'a [u8],
    advantages: &'a mut [f32],
    is_trained: &'a mut [bool],
}

/// Tokens of one row by what became of them.
#[derive(Default)]
struct RowCounts {
    trained: u64,
    nonzero: u64,
    detected: u64,
    suppressed: u64,
    /// The last token that was given what is not finite, within the row, and that.
    endless: Option<(usize, f32)>,
}

impl RowTokens<'_> {
    /// One value for every action token. The loops are free of branches, so that they run on vectors.
    fn apply_one(self, value: f32, suppress_errors: bool) -> RowCounts {
        let is_suppressing = suppress_errors && value > 0.0;
        let looked_at = if is_suppressing { ACTION | ERROR } else { ACTION };
        for ((&flags, advantage), is_trained) in self.flags.iter().zip(self.advantages).zip(&mut *self.is_trained) {
            *is_trained = flags & looked_at == ACTION;
            *advantage = if *is_trained { value } else { 0.0 };
        }
        let trained = self.is_trained.iter().filter(|&&trains| trains).count() as u64;
        let detected = if suppress_errors { count_errors(self.flags) } else { 0 };
        RowCounts {
            trained,
            nonzero: if value == 0.0 { 0 } else { trained },
            detected,
            suppressed: if is_suppressing { detected } else { 0 },
            endless: None,
        }
    }

    fn apply_each(self, values: &[f32], suppress_errors: bool) -> RowCounts {
        let mut counts = RowCounts::default();
        for (at, &value) in values.iter().enumerate() {
            let is_action = self.flags[at] & ACTION != 0;
            let is_detected = is_action && suppress_errors && self.flags[at] & ERROR != 0;
            let is_suppressed = is_detected && value > 0.0;
            counts.detected += u64::from(is_detected);
            counts.suppressed += u64::from(is_suppressed);
            if is_action && !is_suppressed {
                if !value.is_finite() {
                    counts.endless = Some((at, value));
                }
                counts.trained += 1;
                counts.nonzero += u64::from(value != 0.0);
                self.advantages[at] = value;
                self.is_trained[at] = true;
            }
        }
        counts
    }
}

fn count_errors(flags: &[u8]) -> u64 {
    flags.iter().filter(|&&flags| flags & (ACTION | ERROR) == ACTION | ERROR).count() as u64
}

impl ErrorCounters {
    fn add(&mut self, other: &Self) {
        self.detected_action_tokens += other.detected_action_tokens;
        self.suppressed_positive_action_tokens += other.suppressed_positive_action_tokens;
        self.retained_nonpositive_action_tokens += other.retained_nonpositive_action_tokens;
        self.emptied_rows += other.emptied_rows;
    }

    fn add_row(&mut self, row: &RowCounts) {
        self.detected_action_tokens += row.detected;
        self.suppressed_positive_action_tokens += row.suppressed;
        self.retained_nonpositive_action_tokens += row.detected - row.suppressed;
        // A row without trained tokens lost some only if some were suppressed.
        self.emptied_rows += u64::from(row.trained == 0 && row.suppressed > 0);
    }
}

/// Counts each row's trained tokens and finds the rows whose advantages are all exactly 0. Not a number is not 0.
pub fn row_totals(advantages: &[f32], is_trained: &[bool], offsets: &[i64]) -> Result<RowTotals, RowsError> {
    check_length("is_trained", is_trained.len(), advantages.len())?;
    check_offsets(offsets, advantages.len())?;
    let rows = offsets.len() - 1;
    let mut totals = RowTotals { trained_tokens_R: Vec::with_capacity(rows), is_zero_R: Vec::with_capacity(rows) };
    for bounds in offsets.windows(2) {
        let span = bounds[0] as usize..bounds[1] as usize;
        let trained = is_trained[span.clone()].iter().filter(|&&trains| trains).count();
        let is_zero =
            advantages[span.clone()].iter().zip(&is_trained[span]).all(|(&value, &trains)| !trains || value == 0.0);
        totals.trained_tokens_R.push(trained as i64);
        totals.is_zero_R.push(is_zero);
    }
    Ok(totals)
}

/// Multiplies each row's advantages by its weight, in f64, rounded once; weights and products are finite. `threads` share the rows.
pub fn scale_rows(
    advantages: &[f32],
    offsets: &[i64],
    weights: &[f64],
    threads: Threads,
) -> Result<Vec<f32>, RowsError> {
    check_offsets(offsets, advantages.len())?;
    check_length("weights", weights.len(), offsets.len() - 1)?;
    if let Some(row) = weights.iter().position(|weight| !weight.is_finite()) {
        return Err(RowsError::value("weights", row, weights[row], "must be finite"));
    }
    let mut scaled = vec![0f32; advantages.len()];
    let mut left = scaled.as_mut_slice();
    let cut = |rows: Range<usize>| {
        let tokens = (offsets[rows.end] - offsets[rows.start]) as usize;
        (rows, cut_off(&mut left, tokens))
    };
    let parts: Vec<_> = parts_of_rows(offsets, threads).into_iter().map(cut).collect();
    let endless = run_parts(parts, |(rows, mut out)| {
        let mut endless = None;
        for row in rows {
            let values = &advantages[offsets[row] as usize..offsets[row + 1] as usize];
            let places = cut_off(&mut out, values.len());
            places.iter_mut().zip(values).for_each(|(place, &value)| *place = scaled_value(value, weights[row]));
            // All of a row at once, so that the loop runs on vectors.
            if !places.iter().fold(true, |all, place| all & place.is_finite()) {
                endless = endless.or(Some(row));
            }
        }
        endless
    });
    match endless.into_iter().flatten().next() {
        Some(row) => {
            Err(RowsError::value("weights", row, weights[row], "makes advantages of its row that are not finite"))
        }
        None => Ok(scaled),
    }
}

/// A masked 0 keeps its sign, and stays 0 under a weight that is not finite.
pub(crate) fn scaled_value(value: f32, weight: f64) -> f32 {
    if value == 0.0 {
        value
    } else {
        (f64::from(value) * weight) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Threads = Threads { most: 1, tokens_a_thread: 1 };

    #[test]
    fn only_positive_advantages_of_errors_are_suppressed() {
        let flags = [0, ACTION, ACTION | ERROR, 0, ACTION | ERROR, 0, ACTION | ERROR];
        let applied =
            apply_advantages(&flags, &[0, 3, 5, 7], Advantages::PerRow(&[1.0, 2.0, -1.0]), true, ALONE).unwrap();
        assert_eq!(applied.advantages_T, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, -1.0]);
        assert_eq!(applied.is_trained_T, [false, true, false, false, false, false, true]);
        assert_eq!(applied.totals.trained_tokens_R, [1, 0, 1]);
        assert_eq!(applied.totals.is_zero_R, [false, true, false]);
        let expected = ErrorCounters {
            detected_action_tokens: 3,
            suppressed_positive_action_tokens: 2,
            retained_nonpositive_action_tokens: 1,
            emptied_rows: 1,
        };
        assert_eq!(applied.counters, expected);
    }

    #[test]
    fn threads_make_no_difference() {
        let tokens = 40_000;
        let shared = Threads { most: 3, ..ALONE };
        let flags: Vec<u8> = (0..tokens).map(|at| [0, ACTION, ACTION | ERROR, ACTION][at % 7 % 4]).collect();
        let mut offsets: Vec<i64> = (0..tokens as i64).step_by(89).collect();
        offsets.push(tokens as i64);
        let rewards: Vec<f64> = (0..offsets.len() - 1).map(|row| (row % 5) as f64 - 2.0).collect();
        let each: Vec<f32> = (0..tokens).map(|at| (at % 3) as f32 - 1.0).collect();
        for advantages in [Advantages::PerRow(&rewards), Advantages::PerToken(&each)] {
            let alone = apply_advantages(&flags, &offsets, advantages, true, ALONE).unwrap();
            assert_eq!(apply_advantages(&flags, &offsets, advantages, true, shared).unwrap(), alone);
            let scaled = |threads| scale_rows(&alone.advantages_T, &offsets, &rewards, threads).unwrap();
            assert_eq!(scaled(shared), scaled(ALONE));
        }
    }

    #[test]
    fn values_off_the_action_tokens_are_not_read() {
        let applied =
            apply_advantages(&[0, ACTION], &[0, 2], Advantages::PerToken(&[f32::NAN, 0.25]), false, ALONE).unwrap();
        assert_eq!(applied.advantages_T, [0.0, 0.25]);
    }

    #[test]
    fn what_is_not_finite_is_named() {
        fn apply(advantages: Advantages<'_>) -> Result<Applied, RowsError> {
            apply_advantages(&[ACTION, ACTION | ERROR], &[0, 1, 2], advantages, true, ALONE)
        }
        for (values, told) in [([0.0, f64::NAN], "advantages[1] is NaN"), ([1e300, 0.0], "advantages[0] is 1000")] {
            assert!(apply(Advantages::PerRow(&values)).unwrap_err().to_string().starts_with(told));
        }
        let error = apply(Advantages::PerToken(&[0.0, f32::NAN])).unwrap_err();
        assert_eq!(error.to_string(), "advantages[1] is NaN: must be finite in single precision");
        assert!(apply(Advantages::PerToken(&[0.0, f32::INFINITY])).is_ok());
        let scale = |values: &[f32], weights: &[f64]| scale_rows(values, &[0, 1, 2], weights, ALONE);
        assert!(scale(&[0.0, 1e38], &[1.0, 10.0]).unwrap_err().to_string().starts_with("weights[1] is 10: makes"));
        assert!(scale(&[0.0, f32::NAN], &[1.0, 0.0]).is_err());
        assert_eq!(
            scale(&[0.0; 2], &[f64::INFINITY, 1.0]).unwrap_err().to_string(),
            "weights[0] is inf: must be finite"
        );
    }

    #[test]
    fn shapes_are_checked() {
        assert!(apply_advantages(&[0], &[0, 1], Advantages::PerRow(&[]), false, ALONE).unwrap_err().is_shape());
        assert!(apply_advantages(&[0], &[0, 2], Advantages::PerRow(&[1.0]), false, ALONE).unwrap_err().is_shape());
        assert!(scale_rows(&[0.0], &[0, 1], &[], ALONE).unwrap_err().is_shape());
    }
}
