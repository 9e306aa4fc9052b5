"""What a workflow is given: the group to run, its permits, and a way to run one rollout."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from platoon.core.outcome import Outcome
from platoon.rows.merge import TrajectoryCalls


@dataclass(frozen=True)
class GroupRequest:
    """One draw as a workflow sees it. position: place in the run's order, what deterministic seeds depend on."""

    start: int
    seq: int
    position: int
    entry: str
    task_id: str


@dataclass(frozen=True)
class MemberRequest:
    """One rollout of a group."""

    group: GroupRequest
    member: int


class Rollout(Protocol):
    """A finished rollout, as `episodes.rollout` gives it. trajectories: by agent, the root first; their member is not read."""

    @property
    def rollout_id(self) -> str: ...

    @property
    def outcome(self) -> Outcome: ...

    @property
    def trajectories(self) -> Sequence[TrajectoryCalls]: ...

    @property
    def seconds(self) -> Mapping[str, float]: ...

    @property
    def tokens(self) -> Mapping[str, int]: ...

    @property
    def calls(self) -> int: ...


RunMember = Callable[[MemberRequest], Awaitable[Rollout]]


class RolloutLease(Protocol):
    """The permits of a group; `rollout` holds one member's while its block runs and yields the seconds it waited."""

    def rollout(self, index: int) -> AbstractAsyncContextManager[float]: ...


@dataclass(frozen=True)
class GroupSettings:
    """One entry's groups.

    trained: ids of the policies whose rows train. policies, roles: every policy and the configured roles, in the order blocks
    number them. member_limit_s: a rollout that has not answered by then is given up, whatever it waits for.
    """

    group_size: int
    min_successful: int
    trained: frozenset[str]
    policies: tuple[str, ...]
    roles: tuple[str, ...]
    member_limit_s: float
    straggler_timeout_s: float | None = None
    straggler_quorum: int | None = None

    @property
    def quorum(self) -> int:
        """Members that must settle before the others' time runs."""
        return self.straggler_quorum if self.straggler_quorum is not None else max(self.group_size - 1, 1)
