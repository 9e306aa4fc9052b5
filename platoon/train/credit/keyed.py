"""Credit against peers: an agent's reward minus the mean of the group's agents that share its key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from platoon.rows.block import DataError, RowBlock
from platoon.rows.credit import agent_keys, keyed_baselines
from platoon.rows.merge import TrajectoryCalls
from platoon.train.credit.group import group_metrics, root_rewards
from platoon.train.credit.protocol import Credit, CreditGroup

SEVERAL_POLICIES = ("task", "policy", "role")


@dataclass(frozen=True)
class KeyedCredit:
    """key: any of task, policy, role and depth, at least one and none twice. `task` is the group's: the same for all its agents.

    Peers are the agents of trainable members, those of frozen policies included. A key without peers, and a lone peer under
    `leave_one_out`, gives 0.
    """

    key: tuple[str, ...] = SEVERAL_POLICIES
    leave_one_out: bool = False

    def assign(self, group: CreditGroup) -> Credit:
        columns = [_column(part, group) for part in self.key]
        rewards_A = np.array([agent.reward for agent in group.agents], np.float64)
        peers_A = np.ones(len(group.agents), np.bool_)
        baselines_A = keyed_baselines(columns, rewards_A, peers_A, leave_one_out=self.leave_one_out)
        member_A = np.array([agent.member for agent in group.agents], np.uint32)
        trajectory_A = np.array([agent.trajectory for agent in group.agents], np.uint32)
        values_R = group.block.row_reward - baselines_A[_agent_of_row(group.block, member_A, trajectory_A)]
        rewards_M, trainable_M = root_rewards(group)
        baselines_M = np.zeros(len(rewards_M))
        is_root_A = trajectory_A == 0
        baselines_M[member_A[is_root_A]] = baselines_A[is_root_A]
        return Credit(values_R, group_metrics(rewards_M, trainable_M, baselines_M))


def _agent_of_row(block: RowBlock, member_A: npt.NDArray[np.uint32], trajectory_A: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """int64[R]: the index of each row's agent. Agents are numbered as they come, so rows find the number of theirs."""
    count = len(member_A)
    keys = agent_keys(np.concatenate([member_A, block.row_member]), np.concatenate([trajectory_A, block.row_trajectory]))
    agent_R = keys[count:]
    if not np.array_equal(keys[:count], np.arange(count)) or (agent_R >= count).any():
        raise DataError("a row of an agent that is not the group's, or an agent named twice")
    return agent_R


def _column(part: str, group: CreditGroup) -> Sequence[str] | npt.NDArray[np.int64]:
    if part == "depth":
        return np.array([agent.depth for agent in group.agents], np.int64)
    return [_name(part, group, agent) for agent in group.agents]


def _name(part: str, group: CreditGroup, agent: TrajectoryCalls) -> str:
    if part == "task":
        return group.task_id
    if part == "policy":
        return agent.calls[0].policy if agent.calls else ""
    return agent.role
