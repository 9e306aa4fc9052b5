"""What a group hands on when its members have settled: rows, their credit, one outcome a member, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from platoon.core.outcome import Status, fault_text
from platoon.rows.block import RowBlock
from platoon.train.task_records.fates import Verdict


@dataclass(frozen=True)
class MemberOutcome:
    """One rollout of a group.

    status: how its root ended. reward: the primary reward of a scored root, else None. rewards: every component.
    reward_key: name of the primary reward, empty when there is none. trainable: it has a result and a measured root.
    tokens: `prompt` and `completion`, logical counts per call. seconds: by stage. versions: oldest and newest policy version
    that sampled, per policy. straggler: cancelled by the straggler policy, so censored rather than judged.
    """

    member: int
    status: Status
    reward: float | None
    rewards: Mapping[str, float] = field(default_factory=dict)
    reward_key: str = ""
    trainable: bool = False
    rollout_id: str = ""
    tokens: Mapping[str, int] = field(default_factory=dict)
    calls: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    reason: str | None = None
    failure_kind: str | None = None
    straggler: bool = False


@dataclass(frozen=True)
class GroupOutput:
    """One settled group.

    block: its rows in order (member, agent, row); None when there are none. values_R: float64 advantage per row of the block, None
    with it; they belong on action tokens only, which core sees to. seconds: wall time from start to settlement.
    metrics: sums and values of this group under the names of the metrics registry. error: what a failed group failed with.
    """

    block: RowBlock | None
    values_R: npt.NDArray[np.float64] | None
    members: tuple[MemberOutcome, ...]
    verdict: Verdict
    seconds: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None

    def __post_init__(self) -> None:
        if (self.block is None) != (self.values_R is None):
            raise ValueError("a group has values exactly when it has rows")

    @property
    def gave_nothing(self) -> bool:
        """Whether every member failed for reasons of the infrastructure: worth another attempt, and a sign of an outage."""
        return self.verdict is Verdict.FAILED or all(member.status == "error" for member in self.members)

    @property
    def without_rows(self) -> bool:
        """Whether nothing of it can ever train: no result, or members that were graded without a call of a trained policy."""
        return self.gave_nothing or self.verdict is Verdict.NO_DATUMS

    @property
    def cause(self) -> str:
        """Why there is nothing to train on, for a person: the group's own error or the first member's."""
        if self.error:
            return self.error
        if self.verdict is Verdict.NO_DATUMS:
            reasons = [item.reason or "nobody asked the model" for item in self.members if item.trainable]
            return f"graded without one model call to train on: {reasons[0]}"
        reasons = [fault_text(item.failure_kind or item.status, item.reason, item.status) for item in self.members]
        return reasons[0] if reasons else str(self.verdict)
