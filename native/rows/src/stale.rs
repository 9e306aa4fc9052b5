//! Which rows are too old to train.

use crate::error::{check_length, RowsError};

/// One pass over the rows of one or more groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// A row a entry: too old under its own policy's bound.
    pub is_stale_R: Vec<bool>,
    /// A group an entry: at least one row is too old (the filter by group drops it).
    pub has_stale_G: Vec<bool>,
    /// A group an entry: it has rows, and all are too old (the filter by row leaves nothing of it).
    pub is_stale_G: Vec<bool>,
    /// Stale rows by policy.
    pub count_P: Vec<u64>,
}

/// Groups may be empty, but what is allocated for them is bounded by what is given.
const EMPTY_GROUPS: usize = 1 << 16;

/// Judges each row by `current[policy] - version > bound[policy]`.
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
    let rows = row_version.len();
    check_length("row_policy", row_policy.len(), rows)?;
    check_length("group_of_row", group_of_row.len(), rows)?;
    check_length("bounds", bounds.len(), current.len())?;
    if group_count.saturating_sub(EMPTY_GROUPS) > rows {
        return Err(RowsError::Rule { rule: "there are at most 65536 groups more than rows" });
    }
    // The oldest version that is still taken, by policy.
    let oldest: Vec<i64> = current
        .iter()
        .zip(bounds)
        .map(|(&now, bound)| bound.map_or(i64::MIN, |bound| now.saturating_sub(bound)))
        .collect();
    let mut is_stale_R = vec![false; rows];
    let mut stale_of_group = vec![0u64; group_count];
    let mut rows_of_group = vec![0u64; group_count];
    let mut count_P = vec![0u64; current.len()];
    for row in 0..rows {
        let policy = usize::from(row_policy[row]);
        let group = group_of_row[row] as usize;
        if policy >= oldest.len() {
            return Err(RowsError::value("row_policy", row, policy, "has no current version"));
        }
        if group >= group_count {
            return Err(RowsError::value("group_of_row", row, group, "must be below the number of groups"));
        }
        let is_stale = row_version[row] >= 0 && row_version[row] < oldest[policy];
        is_stale_R[row] = is_stale;
        stale_of_group[group] += u64::from(is_stale);
        rows_of_group[group] += 1;
        count_P[policy] += u64::from(is_stale);
    }
    let has_stale_G = stale_of_group.iter().map(|&count| count > 0).collect();
    let is_stale_G = stale_of_group.iter().zip(&rows_of_group).map(|(&stale, &all)| all > 0 && stale == all).collect();
    Ok(Stale { is_stale_R, has_stale_G, is_stale_G, count_P })
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
        let stale =
            stale_rows(&[3, 4, -1, 0, 2], &[0, 0, 0, 1, 2], &[0, 0, 0, 1, 1], 3, &[6, 9, 5], &[Some(2), None, Some(0)])
                .unwrap();
        assert_eq!(stale.is_stale_R, [true, false, false, false, true]);
        assert_eq!(stale.has_stale_G, [true, true, false]);
        assert_eq!(stale.is_stale_G, [false, false, false]);
        assert_eq!(stale.count_P, [1, 0, 1]);
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
