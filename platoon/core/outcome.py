"""What became of a rollout. Only `scored` trains or counts toward a baseline: a fault is never a reward of 0."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["scored", "invalid", "error", "timeout", "cancelled"]
STATUSES: tuple[Status, ...] = ("scored", "invalid", "error", "timeout", "cancelled")
DETAIL_CHARACTERS = 400


@dataclass(frozen=True)
class Outcome:
    """status `scored` has `rewards[primary]`, a finite number; every other status has a reason or a failure_kind.

    metadata keys with a meaning: `grade_reason` (the grader's own reason, displaced by the rollout's), `platoon_zero` (a zero that
    platoon gave and no grader), `reward_problem` and `detail` (what exactly is wrong, of a reward file and else).
    """

    status: Status
    rewards: Mapping[str, float] = field(default_factory=dict)
    primary: str = "reward"
    reason: str | None = None
    failure_kind: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"outcome status {self.status!r} is none of {', '.join(STATUSES)}")
        if self.status == "scored" and self.primary not in self.rewards:
            raise ValueError(f"a scored outcome needs its primary reward {self.primary!r}")
        if not all(math.isfinite(value) for value in self.rewards.values()):
            raise ValueError(f"rewards must be finite: {dict(self.rewards)!r}")

    @property
    def reward(self) -> float | None:
        """The primary reward of a scored outcome, else None."""
        return self.rewards[self.primary] if self.status == "scored" else None

    @property
    def trainable(self) -> bool:
        return self.status == "scored"

    @property
    def explanation(self) -> str | None:
        """The reason and what exactly is wrong, on one line; None where nothing says more than the status and the kind."""
        detail = self.metadata.get("reward_problem") or self.metadata.get("detail") or ""
        parts = (self.reason, " ".join(str(detail).split())[:DETAIL_CHARACTERS])
        return ": ".join(part for part in parts if part) or None

    @classmethod
    def infra(
        cls,
        failure_kind: str,
        status: Literal["invalid", "error", "timeout", "cancelled"] = "error",
        *,
        reason: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """An outcome without a measurement."""
        return cls(status, reason=reason, failure_kind=failure_kind, metadata=metadata or {})

    def to_dict(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "rewards": dict(self.rewards),
            "primary": self.primary,
            "reason": self.reason,
            "failure_kind": self.failure_kind,
            "metadata": dict(self.metadata),
        }


def fault_text(kind: str | None, explanation: str | None, status: str) -> str:
    """Why there is no measurement, for a person: the kind and the explanation, neither told twice."""
    if kind is None or (explanation or "").partition(":")[0] == kind:
        return explanation or status
    return f"{kind}: {explanation}" if explanation else kind
