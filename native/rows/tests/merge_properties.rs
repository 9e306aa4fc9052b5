//! Properties of the merge and of the checks: what is merged keeps the rules of a block, and no input panics.

use platoon_rows::{Call, Merger, NameCounts, OwnedBlock, Trajectory};
use proptest::prelude::*;

proptest! {
    #[test]
    fn what_is_merged_keeps_the_rules(
        calls in prop::collection::vec((prop::collection::vec(0u32..3, 0..6), 0usize..4, 0u16..2, -1i64..3, any::<bool>()), 0..12)
    ) {
        let mut merger = Merger::new();
        let mut sampled = 0;
        for (index, (prompt, length, policy, version, is_message)) in calls.iter().enumerate() {
            if index % 4 == 0 {
                merger.begin(Trajectory { member: index as u32, trajectory: 0, role: 0, depth: 0, reward: 0.5 }).unwrap();
            }
            let (action, logprobs) = (vec![1; *length], vec![-0.5; *length]);
            let call = Call {
                prompt,
                chunks: &[],
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
        prop_assert_eq!(merged.view().check(NameCounts { policies: 2, roles: 1, side: 0 }), Ok(()));
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
        let merged = OwnedBlock {
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
            ..OwnedBlock::default()
        };
        let _ = merged.view().check(NameCounts { policies: 1, roles: 1, side: 0 });
    }
}
