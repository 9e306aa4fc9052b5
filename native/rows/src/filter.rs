//! Which rows of a microbatch are worth sending.

use crate::error::{check_length, RowsError};

/// What the filter leaves of a microbatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Indices of the rows to send.
    pub rows_K: Vec<i64>,
    /// False where nothing would be learnt, so that nothing is sent.
    pub is_sent: bool,
    /// Trained tokens of all rows, dropped ones included: the denominator, which the filter does not change.
    pub represented_tokens: i64,
}

/// Drops the rows without trained tokens, and with `is_enabled` those whose advantages are all exactly 0.
///
/// Only a loss that is zero-preserving gives a token of advantage 0 no gradient: under another every row with tokens is kept and sent;
/// under one, nothing is sent where every advantage is 0, filter or not.
pub fn filter_zero(
    trained_tokens: &[i64],
    is_zero: &[bool],
    is_enabled: bool,
    is_zero_preserving: bool,
) -> Result<Kept, RowsError> {
    check_length("is_zero", is_zero.len(), trained_tokens.len())?;
    let drops_zero = is_enabled && is_zero_preserving;
    let mut kept = Kept { rows_K: Vec::new(), is_sent: false, represented_tokens: 0 };
    let mut has_advantage = false;
    for (row, (&tokens, &is_zero)) in trained_tokens.iter().zip(is_zero).enumerate() {
        if tokens < 0 {
            return Err(RowsError::value("trained_tokens", row, tokens, "must be 0 or more"));
        }
        let Some(sum) = kept.represented_tokens.checked_add(tokens) else {
            return Err(RowsError::Rule { rule: "the trained tokens are too many to add" });
        };
        kept.represented_tokens = sum;
        has_advantage |= !is_zero;
        if tokens > 0 && !(drops_zero && is_zero) {
            kept.rows_K.push(row as i64);
        }
    }
    kept.is_sent = !kept.rows_K.is_empty() && (has_advantage || !is_zero_preserving);
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_stays_in_the_denominator() {
        let (tokens, is_zero) = ([3, 4, 0, 5], [false, true, true, true]);
        for (is_enabled, is_zero_preserving, rows) in
            [(true, true, vec![0]), (false, true, vec![0, 1, 3]), (true, false, vec![0, 1, 3])]
        {
            let kept = filter_zero(&tokens, &is_zero, is_enabled, is_zero_preserving).unwrap();
            assert_eq!(kept, Kept { rows_K: rows, is_sent: true, represented_tokens: 12 });
        }
    }

    #[test]
    fn nothing_is_sent_where_nothing_is_learnt() {
        for (is_enabled, is_zero_preserving, is_sent) in
            [(true, true, false), (false, true, false), (true, false, true), (false, false, true)]
        {
            assert_eq!(filter_zero(&[2], &[true], is_enabled, is_zero_preserving).unwrap().is_sent, is_sent);
            assert!(!filter_zero(&[0], &[true], is_enabled, is_zero_preserving).unwrap().is_sent);
        }
    }

    #[test]
    fn counts_that_are_none_are_refused() {
        assert!(filter_zero(&[-1], &[true], true, true).is_err());
        assert!(filter_zero(&[i64::MAX, 1], &[true; 2], true, true).is_err());
        assert!(filter_zero(&[1], &[], true, true).unwrap_err().is_shape());
    }
}
