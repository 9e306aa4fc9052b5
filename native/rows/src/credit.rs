//! Baselines: what the rewards of an agent's peers say it should have had.

use std::collections::HashMap;

use crate::error::{check_length, RowsError};

/// How a baseline is taken over the peers of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaselineRule {
    /// The mean over all peers.
    Mean,
    /// For a peer, the mean over the others.
    LeaveOneOut,
}

/// The baseline of each agent among the peers that share its key.
///
/// An agent that is no peer itself has the plain mean of its key's peers. A key without peers, and a lone peer under `LeaveOneOut`, has
/// its own reward, so that its advantage is zero. Sums run in the order given: pass agents in a fixed one (by member, then trajectory).
pub fn baselines(keys: &[i64], rewards: &[f64], is_peer: &[bool], rule: BaselineRule) -> Result<Vec<f64>, RowsError> {
    check_length("rewards", rewards.len(), keys.len())?;
    check_length("is_peer", is_peer.len(), keys.len())?;
    let index_of_agent = dense_keys(keys);
    let mut sums = vec![(0f64, 0u64); index_of_agent.iter().map(|&index| index + 1).max().unwrap_or(0)];
    for (agent, &index) in index_of_agent.iter().enumerate() {
        if is_peer[agent] {
            if !rewards[agent].is_finite() {
                return Err(RowsError::value("rewards", agent, rewards[agent], "the reward of a peer is finite"));
            }
            sums[index].0 += rewards[agent];
            sums[index].1 += 1;
        }
    }
    let baseline = |(agent, &index): (usize, &usize)| {
        let (sum, count) = sums[index];
        let reward = rewards[agent];
        if rule == BaselineRule::LeaveOneOut && is_peer[agent] {
            return if count > 1 { (sum - reward) / (count - 1) as f64 } else { reward };
        }
        if count > 0 {
            sum / count as f64
        } else {
            reward
        }
    };
    Ok(index_of_agent.iter().enumerate().map(baseline).collect())
}

/// Small indices for keys. Keys that are small already stay as they are; others are numbered as they come.
fn dense_keys(keys: &[i64]) -> Vec<usize> {
    let bound = keys.len().saturating_mul(2);
    if keys.iter().all(|&key| usize::try_from(key).is_ok_and(|key| key < bound)) {
        return keys.iter().map(|&key| key as usize).collect();
    }
    let mut numbers: HashMap<i64, usize> = HashMap::new();
    keys.iter()
        .map(|&key| {
            let next = numbers.len();
            *numbers.entry(key).or_insert(next)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_peers_and_lone_peers_have_no_advantage() {
        let mean = baselines(&[1, 1, 2], &[1.0, 3.0, 5.0], &[true, false, false], BaselineRule::Mean).unwrap();
        assert_eq!(mean, [1.0, 1.0, 5.0]);
        let others = baselines(&[7, 8], &[1.0, 2.0], &[true, true], BaselineRule::LeaveOneOut).unwrap();
        assert_eq!(others, [1.0, 2.0]);
    }

    #[test]
    fn a_peer_without_a_finite_reward_is_refused() {
        assert!(baselines(&[0], &[f64::NAN], &[true], BaselineRule::Mean).is_err());
        assert!(baselines(&[0], &[f64::NAN], &[false], BaselineRule::Mean).is_ok());
    }
}
