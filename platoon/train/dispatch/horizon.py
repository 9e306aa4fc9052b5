"""How many more groups may be started: pure arithmetic, asked once per policy and once for the plan.

Counts are groups. `pipeline` are started and not yet taken by a step (running or queued); `admitted` are those the current step has
taken. A step's batch is B; `bound` is a policy's staleness bound in versions. Started groups that no step has retired never exceed
(bound + 1) * B: groups taken in the order they were started are at most `bound` publications old, and only one that others overtook
can be older. With bound 0 the groups of a step are those drawn for that very step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PLAN = "plan"
PERMITS = "permits"
HORIZON = "horizon"


@dataclass(frozen=True)
class Counts:
    """Groups now. steps_left: steps of the plan not yet ended, the current one included."""

    pipeline: int
    admitted: int
    steps_left: int


def room(counts: Counts, batch: int, bound: int | None, held: int = 0) -> int | None:
    """Groups that may still start under one policy's bound, at least 0; None without a bound.

    held: slots reserved for draws that may not start yet.
    """
    if bound is None:
        return None
    return max(0, (bound + 1) * batch - counts.pipeline - counts.admitted - held)


def plan_room(counts: Counts, batch: int) -> int:
    """Groups the plan still needs, at least 0."""
    return max(0, counts.steps_left * batch - counts.pipeline - counts.admitted)


def blocked_by(counts: Counts, batch: int, bounds: Mapping[str, int | None], main: str = "main") -> str | None:
    """Why no group may start: `plan`, `horizon` (main's) or `horizon:<policy>`; None when one may.

    bounds: per trained policy that agents sample. The first policy without room names the reason.
    """
    if plan_room(counts, batch) == 0:
        return PLAN
    for policy, bound in bounds.items():
        if room(counts, batch, bound) == 0:
            return HORIZON if policy == main else f"{HORIZON}:{policy}"
    return None
