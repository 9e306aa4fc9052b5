//! Which rows are too old to train.

use crate::error::{check_length, RowsError};

/// Verdicts by either filter, a row an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// Too old under its own policy's bound: the filter by row drops it.
    pub is_stale_R: Vec<bool>,
    /// Some row of its policy in its group is too old: the filter by group drops it.
    pub is_group_stale_R: Vec<bool>,
}

/// Groups may be empty and policies without rows: what is allocated for their pairs, a byte each, is bounded.
const MOST_PAIRS: usize = 1 << 24;

/// Judges each row by `current[policy] - version > bound[policy]`, and each policy's rows of a group by all of them.
///
/// A row version of -1 counts as current, a bound of `None` never makes a row stale. `group_of_row` holds indices below `group_count`.
pub fn stale_rows(
    row_version: &[i64],
    row_policy: &[u16],
    group_of_row: &[u32],
    group_count: usize,
    current: &[i64],
    bounds: &[Option<i64>],
) -> Result<Stale, RowsError> {
    let (rows, policies) = (row_version.len(), current.len());
    check_length("row_policy", row_policy.len(), rows)?;
    check_length("group_of_row", group_of_row.len(), rows)?;
    check_length("bounds", bounds.len(), policies)?;
    let Some(pairs) = group_count.checked_mul(policies).filter(|&pairs| pairs <= MOST_PAIRS) else {
        return Err(RowsError::Rule { rule: "there are at most 2^24 pairs of group and policy" });
    };
    // The oldest version that is still taken, by policy.
    let oldest: Vec<i64> = current
        .iter()
        .zip(bounds)
        .map(|(&now, bound)| bound.map_or(i64::MIN, |bound| now.saturating_sub(bound)))
        .collect();
    let mut is_stale_R = vec![false; rows];
    let mut has_stale_GP = vec![false; pairs];
    for row in 0..rows {
        let policy = usize::from(row_policy[row]);
        let group = group_of_row[row] as usize;
        if policy >= policies {
            return Err(RowsError::value("row_policy", row, policy, "has no current version"));
        }
        if group >= group_count {
            return Err(RowsError::value("group_of_row", row, group, "must be below the number of groups"));
        }
        let is_stale = row_version[row] >= 0 && row_version[row] < oldest[policy];
        is_stale_R[row] = is_stale;
        has_stale_GP[group * policies + policy] |= is_stale;
    }
    let places = group_of_row.iter().zip(row_policy);
    let is_group_stale_R =
        places.map(|(&group, &policy)| has_stale_GP[group as usize * policies + usize::from(policy)]).collect();
    Ok(Stale { is_stale_R, is_group_stale_R })
}

/// The oldest version among each row's calls, -1 where none has one. `call_offsets` cuts the calls into rows, which may have none.
pub fn oldest_versions(call_version: &[i64], call_offsets: &[i64]) -> Result<Vec<i64>, RowsError> {
    let last = call_offsets.last().copied();
    if call_offsets.first() != Some(&0) || last.and_then(|last| usize::try_from(last).ok()) != Some(call_version.len())
    {
        return Err(RowsError::Rule { rule: "call_offsets begins with 0 and ends with the number of calls" });
    }
    if let Some(index) = call_offsets.windows(2).position(|bounds| bounds[1] < bounds[0]) {
        return Err(RowsError::Offsets { index: index + 1, got: call_offsets[index + 1], rule: "offsets do not fall" });
    }
    let rows = call_offsets.windows(2).map(|bounds| &call_version[bounds[0] as usize..bounds[1] as usize]);
    // As unsigned, none at all (-1) is the largest.
    Ok(rows
        .map(|versions| versions.iter().fold(u64::MAX, |oldest, &version| oldest.min(version as u64)) as i64)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_is_judged_by_its_own_clock_and_bound() {
        let (version, policy, group) = ([3, 4, -1, 0, 2, 5], [0, 0, 0, 1, 2, 0], [0, 0, 0, 1, 1, 1]);
        let stale = stale_rows(&version, &policy, &group, 3, &[6, 9, 5], &[Some(2), None, Some(0)]).unwrap();
        assert_eq!(stale.is_stale_R, [true, false, false, false, true, false]);
        assert_eq!(stale.is_group_stale_R, [true, true, true, false, true, false]);
    }

    #[test]
    fn a_row_is_as_old_as_its_oldest_call() {
        assert_eq!(oldest_versions(&[3, -1, 5, -1, 2], &[0, 3, 4, 4, 5]).unwrap(), [3, -1, -1, 2]);
        assert_eq!(oldest_versions(&[], &[0]).unwrap(), Vec::<i64>::new());
        for offsets in [&[][..], &[0], &[1, 2], &[0, 3, 2], &[0, -1]] {
            assert!(oldest_versions(&[1, 2], offsets).is_err(), "{offsets:?}");
        }
    }

    #[test]
    fn an_unknown_policy_or_group_is_refused() {
        assert!(stale_rows(&[0], &[1], &[0], 1, &[0], &[None]).is_err());
        assert!(stale_rows(&[0], &[0], &[1], 1, &[0], &[None]).is_err());
        assert!(stale_rows(&[0], &[0], &[0], usize::MAX - 1, &[0], &[None]).is_err());
    }
}
