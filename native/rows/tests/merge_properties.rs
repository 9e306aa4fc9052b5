//! Properties of the merge and of the checks: what is merged keeps the rules of a block, and no input panics.

use platoon_rows::{Block, Call, Merged, Merger, Trajectory};
use proptest::prelude::*;

fn view(merged: &Merged) -> Block<'_> {
    Block {
        tokens: &merged.tokens,
        logprobs: &merged.logprobs,
        flags: &merged.flags,
        call: &merged.call,
        offsets: &merged.offsets,
        call_policy: &merged.call_policy,
        call_version: &merged.call_version,
        call_routing: &merged.call_routing,
        row_member: &merged.row_member,
        row_trajectory: &merged.row_trajectory,
        row_policy: &merged.row_policy,
        row_role: &merged.row_role,
        row_depth: &merged.row_depth,
        row_start: &merged.row_start,
        row_reward: &merged.row_reward,
        row_version: &merged.row_version,
    }
}

proptest! {
    #[test]
    fn what_is_merged_keeps_the_rules(
        calls in prop::collection::vec((prop::collection::vec(0u32..3, 0..6), 0usize..4, 0u16..2, -1i64..3, any::<bool>()), 0..12)
    ) {
        let mut merger = Merger::new();
        let mut sampled = 0;
        for (index, (prompt, length, policy, version, is_message)) in calls.iter().enumerate() {
            if index % 4 == 0 {
                merger.begin(Trajectory { member: index as u32, trajectory: 0, role: 0, depth: 0, reward: 0.5 });
            }
            let (action, logprobs) = (vec![1; *length], vec![-0.5; *length]);
            let call = Call {
                prompt,
                action: &action,
                logprobs: &logprobs,
                policy: *policy,
                version: *version,
                routing: -1,
                is_error: false,
                is_message: *is_message,
            };
            if merger.push(&call).is_ok() {
                sampled += length;
            }
        }
        let merged = merger.finish();
        prop_assert_eq!(view(&merged).check(2, 1), Ok(()));
        prop_assert_eq!(merged.flags.iter().filter(|&&flags| flags != 0).count(), sampled);
    }

    #[test]
    fn no_columns_panic_the_check(
        offsets in prop::collection::vec(any::<i64>() , 0..4),
        flags in prop::collection::vec(any::<u8>(), 0..4),
        call in prop::collection::vec(any::<u32>(), 0..4),
        rows in 0usize..3,
    ) {
        let tokens = vec![1; flags.len()];
        let merged = Merged {
            tokens,
            logprobs: vec![0.0; flags.len()],
            flags,
            call,
            offsets,
            row_member: vec![0; rows],
            row_trajectory: vec![0; rows],
            row_policy: vec![0; rows],
            row_role: vec![0; rows],
            row_depth: vec![0; rows],
            row_start: vec![0; rows],
            row_reward: vec![0.0; rows],
            row_version: vec![0; rows],
            ..Merged::default()
        };
        let _ = view(&merged).check(1, 1);
    }
}
