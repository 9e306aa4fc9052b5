//! Weights of rows by the depth of their agent, and the starts that depth weighting counts.

use crate::error::{check_length, RowsError};

/// Level weighting: each depth counts as one over its trajectories, rescaled so that the token-weighted mean weight is one.
///
/// `is_start` marks the first row of each trajectory; a depth without one has weight 0. No weight at all is an error.
pub fn level_weights(depth: &[u16], is_start: &[u8], trained_tokens: &[i64]) -> Result<Vec<f64>, RowsError> {
    check_length("row_start", is_start.len(), depth.len())?;
    check_length("trained_tokens", trained_tokens.len(), depth.len())?;
    if depth.is_empty() {
        return Ok(Vec::new());
    }
    let levels = depth.iter().max().map_or(0, |&deepest| usize::from(deepest) + 1);
    let mut starts = vec![0u64; levels];
    let mut tokens = vec![0f64; levels];
    for row in 0..depth.len() {
        starts[usize::from(depth[row])] += u64::from(is_start[row]);
        tokens[usize::from(depth[row])] += trained_tokens[row] as f64;
    }
    let raw: Vec<f64> = starts.iter().map(|&count| if count == 0 { 0.0 } else { 1.0 / count as f64 }).collect();
    normalise(depth, &raw, &tokens)
}

/// Discounting: `gamma` to the power of the depth, rescaled so that the token-weighted mean weight is one.
pub fn discount_weights(depth: &[u16], trained_tokens: &[i64], gamma: f64) -> Result<Vec<f64>, RowsError> {
    check_length("trained_tokens", trained_tokens.len(), depth.len())?;
    if !(gamma > 0.0 && gamma.is_finite()) {
        return Err(RowsError::value("gamma", 0, gamma, "must be a positive number"));
    }
    if depth.is_empty() {
        return Ok(Vec::new());
    }
    let levels = depth.iter().max().map_or(0, |&deepest| usize::from(deepest) + 1);
    let mut tokens = vec![0f64; levels];
    for row in 0..depth.len() {
        tokens[usize::from(depth[row])] += trained_tokens[row] as f64;
    }
    let raw: Vec<f64> = (0..levels).map(|level| gamma.powi(level as i32)).collect();
    normalise(depth, &raw, &tokens)
}

fn normalise(depth: &[u16], raw: &[f64], tokens: &[f64]) -> Result<Vec<f64>, RowsError> {
    let total: f64 = tokens.iter().sum();
    let weighted: f64 = tokens.iter().zip(raw).map(|(&count, &weight)| count * weight).sum();
    if !(weighted > 0.0 && weighted.is_finite()) {
        return Err(RowsError::Rule { rule: "the depth weights of these rows add up to nothing" });
    }
    let scale = total / weighted;
    Ok(depth.iter().map(|&level| raw[usize::from(level)] * scale).collect())
}

/// The start marks of the rows that survive.
///
/// `row_start` marks the first row with action tokens of each trajectory; where that row goes, or has lost its tokens, the mark moves to
/// the next surviving row with tokens of the same trajectory. Rows that do not survive have mark 0.
pub fn surviving_starts(row_start: &[u8], has_tokens: &[bool], is_kept: &[bool]) -> Result<Vec<u8>, RowsError> {
    check_length("has_tokens", has_tokens.len(), row_start.len())?;
    check_length("is_kept", is_kept.len(), row_start.len())?;
    let mut is_open = false;
    let mut starts = vec![0u8; row_start.len()];
    for row in 0..row_start.len() {
        is_open |= row_start[row] == 1;
        if is_open && has_tokens[row] && is_kept[row] {
            starts[row] = 1;
            is_open = false;
        }
    }
    Ok(starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_weighted_mean_weight_is_one() {
        let (depth, tokens) = ([0, 1, 1, 2], [10, 5, 20, 0]);
        for weights in
            [level_weights(&depth, &[1, 1, 1, 0], &tokens).unwrap(), discount_weights(&depth, &tokens, 0.5).unwrap()]
        {
            let mean: f64 =
                weights.iter().zip(&tokens).map(|(weight, &count)| weight * count as f64).sum::<f64>() / 35.0;
            assert!((mean - 1.0).abs() < 1e-12, "{weights:?}");
        }
        assert_eq!(level_weights(&depth, &[1, 1, 1, 0], &tokens).unwrap()[3], 0.0);
    }

    #[test]
    fn no_weight_is_an_error() {
        assert!(level_weights(&[0], &[0], &[3]).is_err());
        assert!(discount_weights(&[0], &[0], 0.5).is_err());
        assert!(discount_weights(&[0], &[1], 0.0).is_err());
        assert_eq!(level_weights(&[], &[], &[]).unwrap(), Vec::<f64>::new());
    }

    #[test]
    fn a_start_moves_to_the_next_survivor_of_its_trajectory() {
        let starts = surviving_starts(&[1, 0, 1, 0, 0], &[true; 5], &[false, true, false, false, false]).unwrap();
        assert_eq!(starts, [0, 1, 0, 0, 0]);
    }
}
