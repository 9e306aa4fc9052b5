//! Baselines: what the rewards of an agent's peers say it should have had.

use crate::error::{check_length, RowsError};
use crate::keys::{codes, KeyColumn};

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
pub fn baselines(
    keys: &[KeyColumn<'_>],
    rewards: &[f64],
    is_peer: &[bool],
    rule: BaselineRule,
) -> Result<Vec<f64>, RowsError> {
    check_length("is_peer", is_peer.len(), rewards.len())?;
    let codes = codes(keys, rewards.len())?;
    let mut peers = vec![Peers { sum: 0.0, count: 0 }; codes.bound];
    for ((&code, &reward), _) in codes.of_entry.iter().zip(rewards).zip(is_peer).filter(|(_, &is_peer)| is_peer) {
        let peers = &mut peers[code as usize];
        peers.sum += reward;
        peers.count += 1;
    }
    // A sum that is not finite says that a reward was not, or that they are too large to add.
    if peers.iter().any(|peers| !peers.sum.is_finite()) {
        check_rewards(rewards, is_peer)?;
    }
    let agents = codes.of_entry.iter().zip(rewards).zip(is_peer);
    Ok(agents.map(|((&code, &reward), &is_peer)| peers[code as usize].baseline(reward, is_peer, rule)).collect())
}

/// The rewards of a key's peers.
#[derive(Debug, Clone, Copy)]
struct Peers {
    sum: f64,
    count: u64,
}

impl Peers {
    fn baseline(self, reward: f64, is_peer: bool, rule: BaselineRule) -> f64 {
        let (sum, count) = if is_peer && rule == BaselineRule::LeaveOneOut {
            (self.sum - reward, self.count - 1)
        } else {
            (self.sum, self.count)
        };
        if count > 0 {
            sum / count as f64
        } else {
            reward
        }
    }
}

fn check_rewards(rewards: &[f64], is_peer: &[bool]) -> Result<(), RowsError> {
    match rewards.iter().zip(is_peer).position(|(reward, &is_peer)| is_peer && !reward.is_finite()) {
        Some(agent) => Err(RowsError::value("rewards", agent, rewards[agent], "the reward of a peer is finite")),
        None => Err(RowsError::Rule { rule: "the rewards of a key's peers are too large to add" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_peers_and_lone_peers_have_no_advantage() {
        let mean =
            baselines(&[KeyColumn::I64(&[1, 1, 2])], &[1.0, 3.0, 5.0], &[true, false, false], BaselineRule::Mean)
                .unwrap();
        assert_eq!(mean, [1.0, 1.0, 5.0]);
        let others =
            baselines(&[KeyColumn::I64(&[7, 8])], &[1.0, 2.0], &[true, true], BaselineRule::LeaveOneOut).unwrap();
        assert_eq!(others, [1.0, 2.0]);
    }

    #[test]
    fn a_peer_without_a_finite_reward_is_refused() {
        assert!(baselines(&[KeyColumn::U16(&[0])], &[f64::NAN], &[true], BaselineRule::Mean).is_err());
        assert!(baselines(&[KeyColumn::U16(&[0])], &[f64::NAN], &[false], BaselineRule::Mean).is_ok());
    }
}
