"""Credit against the group's own mean: a row's reward minus the baseline of its member."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from platoon.rows.credit import group_baselines
from platoon.train.credit.protocol import Credit, CreditGroup


@dataclass(frozen=True)
class GroupCredit:
    """Mean of the trainable roots' rewards; with `leave_one_out` of the other members' alone. No division by a deviation."""

    leave_one_out: bool = False

    def assign(self, group: CreditGroup) -> Credit:
        rewards_M, trainable_M = root_rewards(group)
        baselines_M = group_baselines(rewards_M, trainable_M, leave_one_out=self.leave_one_out)
        values_R = group.block.row_reward - baselines_M[group.block.row_member]
        return Credit(values_R, group_metrics(rewards_M, trainable_M, baselines_M))


def root_rewards(group: CreditGroup) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """float64[M] and bool[M]: each member's root reward (0 without one) and whether it counts."""
    rewards_M = np.array([member.reward or 0.0 for member in group.members], np.float64)
    return rewards_M, np.array([member.trainable for member in group.members], np.bool_)


def group_metrics(
    rewards_M: npt.NDArray[np.float64], trainable_M: npt.NDArray[np.bool_], baselines_M: npt.NDArray[np.float64]
) -> dict[str, float]:
    used = baselines_M[trainable_M]
    advantage = np.abs(rewards_M[trainable_M] - used)
    return {
        "credit/baseline/avg": float(used.mean()),
        "credit/baseline/spread": float(used.max() - used.min()),
        "credit/root_advantage/abs_avg": float(advantage.mean()),
    }
