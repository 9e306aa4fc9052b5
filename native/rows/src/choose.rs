//! Some rows of a block, and the rows of several blocks, as blocks of their own.

use std::ops::Range;

use crate::block::{Block, NO_CALL};
use crate::depth::surviving_starts;
use crate::error::{check_length, RowsError};
use crate::owned::OwnedBlock;
use crate::runs::Runs;

/// The rows `rows` of a checked block, named in rising order.
///
/// Start marks move to the first of them with action tokens of each trajectory; calls and items that none of them needs go. What is left
/// keeps its order.
pub fn select(block: &Block<'_>, rows: &[i64]) -> Result<OwnedBlock, RowsError> {
    block.check_shape()?;
    let chosen = row_indices("rows", rows, block.row_member.len())?;
    let span = |row: usize| block.offsets[row] as usize..block.offsets[row + 1] as usize;
    let numbers = call_numbers(block, chosen.iter().map(|&row| span(row)))?;
    let mut out = OwnedBlock::new();
    out.reserve(chosen.iter().map(|&row| span(row).len()).sum(), block.call_policy.len());
    for (call, _) in numbers.iter().enumerate().filter(|(_, &number)| number != NO_CALL) {
        out.call_policy.push(block.call_policy[call]);
        out.call_version.push(block.call_version[call]);
        out.call_routing.push(block.call_routing[call]);
    }
    let starts = starts_of(block, &chosen)?;
    for &row in &chosen {
        push_tokens(&mut out, block, span(row), |call| numbers[call as usize]);
        push_row(&mut out, block, row, |policy| policy, |role| role);
        out.row_start.push(starts[row]);
    }
    push_side(&mut out, block, &new_numbers(&chosen, block.row_member.len()), |name| name);
    Ok(out)
}

/// Where the names of one block stand in the tables of the joined one.
#[derive(Debug, Clone, Copy)]
pub struct NameMaps<'a> {
    pub policies: &'a [u16],
    pub roles: &'a [u16],
    pub side: &'a [u16],
}

/// All rows of checked blocks, in order. Each map has an entry for every name of its block.
pub fn concat(blocks: &[(Block<'_>, NameMaps<'_>)]) -> Result<OwnedBlock, RowsError> {
    let mut out = OwnedBlock::new();
    let calls: usize = blocks.iter().map(|(block, _)| block.call_policy.len()).sum();
    if calls >= NO_CALL as usize {
        return Err(RowsError::Rule { rule: "a block holds fewer than 2^32 - 1 calls" });
    }
    out.reserve(blocks.iter().map(|(block, _)| block.tokens.len()).sum(), calls);
    for (block, maps) in blocks {
        block.check_shape()?;
        check_map("policies", maps.policies, block.call_policy.iter().chain(block.row_policy))?;
        check_map("roles", maps.roles, block.row_role.iter())?;
        check_map("side_names", maps.side, block.side.name.iter())?;
        check_calls(block)?;
        let first_call = out.call_policy.len() as u32;
        let first_row = out.row_member.len() as u32;
        out.call_policy.extend(block.call_policy.iter().map(|&policy| maps.policies[usize::from(policy)]));
        out.call_version.extend_from_slice(block.call_version);
        out.call_routing.extend_from_slice(block.call_routing);
        for (row, bounds) in block.offsets.windows(2).enumerate() {
            push_tokens(&mut out, block, bounds[0] as usize..bounds[1] as usize, |call| first_call + call);
            push_row(
                &mut out,
                block,
                row,
                |policy| maps.policies[usize::from(policy)],
                |role| maps.roles[usize::from(role)],
            );
            out.row_start.push(block.row_start[row]);
        }
        let numbers: Vec<u32> = (0..block.row_member.len() as u32).map(|row| first_row + row).collect();
        push_side(&mut out, block, &numbers, |name| maps.side[usize::from(name)]);
    }
    Ok(out)
}

/// Row indices that rise and exist.
pub(crate) fn row_indices(column: &'static str, rows: &[i64], row_count: usize) -> Result<Vec<usize>, RowsError> {
    let mut previous = -1;
    rows.iter()
        .enumerate()
        .map(|(index, &row)| {
            // Rising, so that what is written is bounded by what was given.
            if row <= previous {
                return Err(RowsError::value(column, index, row, "rows are named once, in rising order"));
            }
            previous = row;
            match usize::try_from(row) {
                Ok(row) if row < row_count => Ok(row),
                _ => Err(RowsError::value(column, index, row, "names no row of the block")),
            }
        })
        .collect()
}

/// The new number of each call that sampled tokens of the spans, NO_CALL for the others.
fn call_numbers(block: &Block<'_>, spans: impl Iterator<Item = Range<usize>>) -> Result<Vec<u32>, RowsError> {
    let mut numbers = vec![NO_CALL; block.call_policy.len()];
    for span in spans {
        for run in Runs::new(block.flags, block.call, span.start, span.end).filter(|run| run.flags != 0) {
            match numbers.get_mut(run.call as usize) {
                Some(number) => *number = 0,
                None => return Err(RowsError::value("call", run.start, run.call, "names no call of the block")),
            }
        }
    }
    let used = numbers.iter_mut().filter(|number| **number != NO_CALL);
    used.zip(0..).for_each(|(number, next)| *number = next);
    Ok(numbers)
}

/// Each sampled token names a call.
fn check_calls(block: &Block<'_>) -> Result<(), RowsError> {
    let calls = block.call_policy.len();
    match Runs::new(block.flags, block.call, 0, block.flags.len())
        .find(|run| run.flags != 0 && run.call as usize >= calls)
    {
        Some(run) => Err(RowsError::value("call", run.start, run.call, "names no call of the block")),
        None => Ok(()),
    }
}

fn starts_of(block: &Block<'_>, chosen: &[usize]) -> Result<Vec<u8>, RowsError> {
    let rows = block.row_member.len();
    let mut is_kept = vec![false; rows];
    chosen.iter().for_each(|&row| is_kept[row] = true);
    surviving_starts(block.row_start, &has_action(block.flags, block.offsets), &is_kept)
}

/// For each row, whether any of its tokens is an action.
fn has_action(flags: &[u8], offsets: &[i64]) -> Vec<bool> {
    let rows = offsets.windows(2).map(|bounds| &flags[bounds[0] as usize..bounds[1] as usize]);
    rows.map(|row| row.iter().fold(0, |seen, &flags| seen | flags) & crate::block::ACTION != 0).collect()
}

fn new_numbers(chosen: &[usize], row_count: usize) -> Vec<u32> {
    let mut numbers = vec![u32::MAX; row_count];
    chosen.iter().zip(0..).for_each(|(&row, number)| numbers[row] = number);
    numbers
}

fn push_tokens(out: &mut OwnedBlock, block: &Block<'_>, span: Range<usize>, number_of: impl Fn(u32) -> u32) {
    out.tokens.extend_from_slice(&block.tokens[span.clone()]);
    out.logprobs.extend_from_slice(&block.logprobs[span.clone()]);
    out.flags.extend_from_slice(&block.flags[span.clone()]);
    for run in Runs::new(block.flags, block.call, span.start, span.end) {
        let call = if run.flags == 0 { NO_CALL } else { number_of(run.call) };
        out.call.resize(out.call.len() + run.end - run.start, call);
    }
    out.offsets.push(out.tokens.len() as i64);
}

fn push_row(
    out: &mut OwnedBlock,
    block: &Block<'_>,
    row: usize,
    policy: impl Fn(u16) -> u16,
    role: impl Fn(u16) -> u16,
) {
    out.row_member.push(block.row_member[row]);
    out.row_trajectory.push(block.row_trajectory[row]);
    out.row_policy.push(policy(block.row_policy[row]));
    out.row_role.push(role(block.row_role[row]));
    out.row_depth.push(block.row_depth[row]);
    out.row_reward.push(block.row_reward[row]);
    out.row_version.push(block.row_version[row]);
}

/// Adds the entries of the rows that have a new number.
fn push_side(out: &mut OwnedBlock, block: &Block<'_>, numbers: &[u32], name: impl Fn(u16) -> u16) {
    let side = &block.side;
    for entry in 0..side.row.len() {
        let row = numbers[side.row[entry] as usize];
        if row == u32::MAX {
            continue;
        }
        let item = side.item[entry] as usize;
        let bytes = &side.item_bytes[side.item_offsets[item] as usize..side.item_offsets[item + 1] as usize];
        out.side_row.push(row);
        out.side_at.push(side.at[entry]);
        out.side_length.push(side.length[entry]);
        out.side_name.push(name(side.name[entry]));
        out.side_item.push(out.items.insert(bytes));
    }
}

fn check_map<'a>(
    column: &'static str,
    map: &[u16],
    mut indices: impl Iterator<Item = &'a u16>,
) -> Result<(), RowsError> {
    match indices.find(|&&index| usize::from(index) >= map.len()) {
        Some(&index) => check_length(column, map.len(), usize::from(index) + 1),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::NameCounts;
    use crate::merge::{Call, Chunk, Merger, Trajectory};

    fn block() -> OwnedBlock {
        let mut merger = Merger::new();
        for trajectory in 0..3 {
            merger.begin(Trajectory { member: 0, trajectory, role: 0, depth: 0, reward: 1.0 }).unwrap();
            for token in 0..2 {
                let data = [trajectory as u8 / 2];
                let call = Call {
                    prompt: &[0, token],
                    chunks: &[Chunk { at: 0, length: 1, name: 0, data: &data }],
                    action: &[7],
                    logprobs: &[-0.5],
                    policy: 0,
                    version: i64::from(trajectory),
                    routing: -1,
                    is_error: false,
                    is_message: false,
                };
                merger.push(&call).unwrap();
            }
        }
        merger.finish()
    }

    #[test]
    fn what_is_chosen_keeps_the_rules_and_no_trace_of_the_rest() {
        let all = block();
        let some = select(&all.view(), &[1, 4]).unwrap();
        assert_eq!(some.view().check(NameCounts { policies: 1, roles: 1, side: 1 }), Ok(()));
        assert_eq!((some.row_trajectory.as_slice(), some.row_start.as_slice()), (&[0, 2][..], &[1, 1][..]));
        assert_eq!((some.call_version.as_slice(), some.items.bytes()), (&[0, 2][..], &[0, 1][..]));
        assert_eq!(select(&all.view(), &[0, 1, 2, 3, 4, 5]).unwrap(), all);
        for rows in [&[1, 0][..], &[0, 0], &[6], &[-1]] {
            assert!(select(&all.view(), rows).is_err(), "{rows:?}");
        }
    }

    #[test]
    fn what_is_joined_parts_again() {
        let all = block();
        let maps = NameMaps { policies: &[0], roles: &[0], side: &[0] };
        let parts = [select(&all.view(), &[0, 1, 2]).unwrap(), select(&all.view(), &[3, 4, 5]).unwrap()];
        let joined = concat(&[(parts[0].view(), maps), (parts[1].view(), maps)]).unwrap();
        assert_eq!(joined.view().check(NameCounts { policies: 1, roles: 1, side: 1 }), Ok(()));
        assert_eq!(select(&joined.view(), &[0, 1, 2]).unwrap(), parts[0]);
        assert_eq!(select(&joined.view(), &[3, 4, 5]).unwrap(), parts[1]);
        assert!(concat(&[(all.view(), NameMaps { policies: &[], ..maps })]).unwrap_err().is_shape());
    }
}
