"""When the slow members of a group are given up: pure arithmetic on their clocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class MemberClock:
    """Seconds on the group's clock. started: when it got its permit, None before. settled: when it ended, in whatever way."""

    started: float | None = None
    settled: float | None = None


def deadlines(members: Sequence[MemberClock], quorum: int, timeout_s: float | None) -> list[float | None]:
    """When each member is cancelled; None for one that has settled, and while nothing can be said.

    Once `quorum` members have settled the others get `timeout_s` more, plus the delay of their own start. One that had not started
    by then gets `timeout_s` from its start. Members that started together with the group share one deadline.
    """
    settled = sorted(member.settled for member in members if member.settled is not None)
    if timeout_s is None or len(settled) < quorum:
        return [None] * len(members)
    reached = settled[quorum - 1]
    return [None if member.settled is not None else _deadline(member.started, reached, timeout_s) for member in members]


def _deadline(started: float | None, reached: float, timeout_s: float) -> float | None:
    if started is None:
        return None
    return reached + timeout_s + started if started <= reached else started + timeout_s
