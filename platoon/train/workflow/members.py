"""From a finished rollout to the outcome of a member."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from platoon.core.outcome import Outcome, Status
from platoon.rows.merge import NONE, TrajectoryCalls
from platoon.train.workflow.output import MemberOutcome
from platoon.train.workflow.protocol import Rollout


def member_outcome(member: int, rollout: Rollout) -> MemberOutcome:
    """A member that returned. Only a scored root is measured; a fault is never a reward of 0."""
    outcome = rollout.outcome
    return MemberOutcome(
        member,
        outcome.status,
        outcome.reward,
        dict(outcome.rewards),
        outcome.primary if outcome.status == "scored" else "",
        outcome.trainable,
        rollout.rollout_id,
        dict(rollout.tokens),
        rollout.calls,
        dict(rollout.seconds),
        version_spans(rollout.trajectories),
        outcome.explanation,
        outcome.failure_kind,
    )


def lost_member(member: int, status: Status, failure_kind: str, reason: str, *, straggler: bool = False) -> MemberOutcome:
    """A member without a result."""
    outcome = Outcome(status, reason=reason, failure_kind=failure_kind)
    return MemberOutcome(member, outcome.status, None, reason=reason, failure_kind=failure_kind, straggler=straggler)


def version_spans(trajectories: Sequence[TrajectoryCalls]) -> dict[str, tuple[int, int]]:
    """The oldest and newest version of each policy that sampled, over calls that have one."""
    spans: dict[str, tuple[int, int]] = {}
    for call in (call for trajectory in trajectories for call in trajectory.calls):
        if call.version != NONE:
            oldest, newest = spans.get(call.policy, (call.version, call.version))
            spans[call.policy] = (min(oldest, call.version), max(newest, call.version))
    return dict(sorted(spans.items()))


def numbered(member: int, trajectories: Sequence[TrajectoryCalls]) -> list[TrajectoryCalls]:
    """The trajectories as those of a member, numbered in their order."""
    return [replace(item, member=member, trajectory=index) for index, item in enumerate(trajectories)]


def trained_calls(trajectory: TrajectoryCalls, trained: frozenset[str]) -> TrajectoryCalls:
    """The trajectory with the calls of trained policies alone: what others sampled gives rewards, but no rows."""
    return replace(trajectory, calls=[call for call in trajectory.calls if call.policy in trained])
