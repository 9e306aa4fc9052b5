"""Credit against peers: an agent's reward minus the mean of the group's agents that share its key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
        columns = [[_part(part, group, agent) for agent in group.agents] for part in self.key]
        rewards_A = np.array([agent.reward for agent in group.agents], np.float64)
        peers_A = np.ones(len(group.agents), np.bool_)
        baselines_A = keyed_baselines(agent_keys(*columns), rewards_A, peers_A, leave_one_out=self.leave_one_out)
        index = {(agent.member, agent.trajectory): number for number, agent in enumerate(group.agents)}
        block = group.block
        agent_R = [index[pair] for pair in zip(block.row_member.tolist(), block.row_trajectory.tolist(), strict=True)]
        values_R = block.row_reward - baselines_A[agent_R]
        rewards_M, trainable_M = root_rewards(group)
        baselines_M = np.zeros(len(rewards_M))
        for (member, trajectory), number in index.items():
            if trajectory == 0:
                baselines_M[member] = baselines_A[number]
        return Credit(values_R, group_metrics(rewards_M, trainable_M, baselines_M))


def _part(part: str, group: CreditGroup, agent: TrajectoryCalls) -> str | int:
    if part == "task":
        return group.task_id
    if part == "policy":
        return agent.calls[0].policy if agent.calls else ""
    return agent.role if part == "role" else agent.depth
