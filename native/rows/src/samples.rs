//! What was sampled of each row.

use std::ops::Range;

use crate::block::{check_offsets, ACTION};
use crate::error::{check_length, RowsError};
use crate::parts::{parts_of_rows, run_parts, Threads};

/// Per row: its action tokens, and the routing handle of its last call, -1 for none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowSamples {
    pub action_count_R: Vec<i64>,
    pub routing_R: Vec<i64>,
}

/// Counts action tokens and finds the last call that sampled a token, row by row. `threads` share the rows.
pub fn row_samples(
    flags: &[u8],
    call: &[u32],
    offsets: &[i64],
    call_routing: &[i64],
    threads: Threads,
) -> Result<RowSamples, RowsError> {
    check_length("call", call.len(), flags.len())?;
    check_offsets(offsets, flags.len())?;
    let parts = run_parts(parts_of_rows(offsets, threads), |rows| {
        let mut part = RowSamples::default();
        for bounds in offsets[rows.start..=rows.end].windows(2) {
            let span = bounds[0] as usize..bounds[1] as usize;
            part.action_count_R.push(count_actions(&flags[span.clone()]));
            part.routing_R.push(last_routing(flags, call, span, call_routing)?);
        }
        Ok(part)
    });
    let mut all = RowSamples::default();
    for part in parts {
        let part: RowSamples = part?;
        all.action_count_R.extend(part.action_count_R);
        all.routing_R.extend(part.routing_R);
    }
    Ok(all)
}

fn count_actions(flags: &[u8]) -> i64 {
    // So few that a byte holds their count: sixteen and more are added at once.
    let counts = flags.chunks(192).map(|some| some.iter().fold(0, |count, flags| count + (flags & ACTION)));
    counts.map(i64::from).sum()
}

fn last_routing(flags: &[u8], call: &[u32], span: Range<usize>, call_routing: &[i64]) -> Result<i64, RowsError> {
    let Some(last) = flags[span.clone()].iter().rposition(|&flags| flags != 0) else { return Ok(-1) };
    let (at, call) = (span.start + last, call[span.start + last]);
    match call_routing.get(call as usize) {
        Some(&routing) => Ok(routing),
        None => Err(RowsError::value("call", at, call, "names no call of the block")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{ERROR, MESSAGE, NO_CALL};

    #[test]
    fn actions_are_counted_and_the_last_call_names_the_routing() {
        let flags = [0, ACTION, ACTION | ERROR, MESSAGE, 0, 0, 0, 0, ACTION];
        let call = [NO_CALL, 0, 0, 1, NO_CALL, NO_CALL, NO_CALL, NO_CALL, 2];
        let threads = Threads { most: 2, tokens_a_thread: 1 };
        let found = row_samples(&flags, &call, &[0, 5, 7, 9], &[7, 8, -1], threads).unwrap();
        assert_eq!(found, RowSamples { action_count_R: vec![2, 0, 1], routing_R: vec![8, -1, -1] });
        assert_eq!(row_samples(&[], &[], &[0], &[], threads).unwrap(), RowSamples::default());
    }

    #[test]
    fn long_rows_are_counted_whole() {
        for length in [191, 192, 193, 1000] {
            assert_eq!(count_actions(&vec![ACTION | ERROR; length]), length as i64);
        }
    }

    #[test]
    fn a_call_that_is_none_is_refused() {
        let alone = Threads::up_to(1);
        assert!(row_samples(&[0, ACTION], &[NO_CALL, 1], &[0, 2], &[5], alone).is_err());
        assert!(row_samples(&[0], &[], &[0, 1], &[], alone).unwrap_err().is_shape());
        assert!(row_samples(&[0], &[NO_CALL], &[0, 2], &[], alone).unwrap_err().is_shape());
    }
}
