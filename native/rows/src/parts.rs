//! Work on rows, shared among threads of one call.
//!
//! Rows are cut into parts of about equal tokens; each part computes what it would alone. Where nothing is summed across parts but
//! counts, the result does not depend on how many there are.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// Fewer tokens a thread are done before a thread has started.
pub const TOKENS_A_THREAD: usize = 1 << 20;

/// How many threads may share the rows of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads {
    pub most: usize,
    /// A thread is worth starting for so many.
    pub tokens_a_thread: usize,
}

impl Threads {
    /// At most so many, where there are tokens enough.
    pub fn up_to(most: usize) -> Self {
        Self { most, tokens_a_thread: TOKENS_A_THREAD }
    }
}

/// Ranges of rows with about equally many tokens each, one a thread. `offsets` are those of a block, or of no row.
pub(crate) fn parts_of_rows(offsets: &[i64], threads: Threads) -> Vec<Range<usize>> {
    let rows = offsets.len().saturating_sub(1);
    let tokens = offsets.last().map_or(0, |&last| last as usize);
    let parts = threads.most.min(tokens / threads.tokens_a_thread.max(1)).max(1);
    let mut start = 0;
    let ends = (1..=parts).map(|part| if part == parts { rows } else { rows_below(offsets, tokens / parts * part) });
    ends.map(|end| std::mem::replace(&mut start, end)..end).collect()
}

/// How many rows end at or before `token`.
fn rows_below(offsets: &[i64], token: usize) -> usize {
    offsets.partition_point(|&offset| offset as usize <= token).saturating_sub(1)
}

/// Cuts the front of `length` entries off a column.
pub(crate) fn cut_off<'a, T>(column: &mut &'a mut [T], length: usize) -> &'a mut [T] {
    let (front, rest) = std::mem::take(column).split_at_mut(length);
    *column = rest;
    front
}

/// What `work` makes of each part, in order. Threads that cannot be started leave their parts to the others.
pub(crate) fn run_parts<P: Send, R: Send>(parts: Vec<P>, work: impl Fn(P) -> R + Sync) -> Vec<R> {
    let count = parts.len();
    if count <= 1 {
        return parts.into_iter().map(work).collect();
    }
    let left = Mutex::new(parts.into_iter().enumerate());
    let done = Mutex::new(Vec::with_capacity(count));
    let run = || loop {
        let Some((index, part)) = lock(&left).next() else { break };
        let result = work(part);
        lock(&done).push((index, result));
    };
    thread::scope(|scope| {
        for _ in 1..count {
            if thread::Builder::new().spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
    let mut results = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|&(index, _)| index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Nothing is left half done where a lock was held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_rows_in_order() {
        for (offsets, most, ends) in [
            (vec![0], 4, vec![0]),
            (vec![0, 3, 19], 4, vec![2]),
            (vec![0, 10, 20], 2, vec![1, 2]),
            (vec![0, 1, 30], 3, vec![1, 1, 2]),
            (vec![0, 1, 2, 22], 8, vec![2, 3]),
        ] {
            let parts = parts_of_rows(&offsets, Threads { most, tokens_a_thread: 10 });
            assert_eq!(parts.iter().map(|part| part.end).collect::<Vec<_>>(), ends, "{offsets:?}");
            assert!(parts[0].start == 0 && parts.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }

    #[test]
    fn results_keep_the_order_of_their_parts() {
        for count in [0, 1, 2, 7] {
            let squares: Vec<usize> = (0..count).map(|part| part * part).collect();
            assert_eq!(run_parts((0..count).collect(), |part| part * part), squares);
        }
    }
}
