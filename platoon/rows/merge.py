"""From model calls to rows.

Calls of one trajectory and one policy share a row as long as each prompt extends, token for token, what the row holds so far;
only the suffix is kept, so memory grows with the row and not with the number of calls. A prompt that does not extend it, or a
call of another policy, opens a row. A call that sampled nothing adds nothing.

    merger = TrajectoryMerger(member=0, trajectory=0, policies=("main",), roles=("root",), role="root")
    merger.push(Call(prompt_T, action_T, logprobs_T, policy="main", version=3))
    block = merger.finish(reward=1.0)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from platoon import _native
from platoon._native import DataError
from platoon.rows.block import RowBlock

NONE = -1
"""The version and routing handle of a call without one."""


@dataclass(frozen=True, eq=False)
class Call:
    """One model call as it was sampled.

    prompt: u32[P], the exact prompt, at least one token.
    action: u32[A], the sampled tokens.
    logprobs: f32[A], of the sampled tokens under their sampler, finite.
    version: policy version that sampled it, NONE without one. routing: the service's handle, NONE without one.
    is_error: the call's step reported an error. is_message: its tokens are a plain agent message, which is not trained.
    """

    prompt: NDArray[np.uint32]
    action: NDArray[np.uint32]
    logprobs: NDArray[np.float32]
    policy: str
    version: int = NONE
    routing: int = NONE
    is_error: bool = False
    is_message: bool = False


@dataclass(frozen=True, eq=False)
class TrajectoryCalls:
    """The calls of one agent within one rollout, in order. `reward` is the trajectory's own processed reward, finite."""

    member: int
    trajectory: int
    role: str
    depth: int
    reward: float
    calls: Sequence[Call]


class TrajectoryMerger:
    """Merges the calls of one trajectory while it runs. Not safe for use by two threads at once."""

    def __init__(
        self, *, member: int, trajectory: int, role: str, policies: Sequence[str], roles: Sequence[str], depth: int = 0
    ) -> None:
        """DataError where `role` is not among `roles`."""
        self._policies = tuple(policies)
        self._roles = tuple(roles)
        self._merger = _native.Merger()
        # The reward is known only at the end; `finish` puts it in.
        self._merger.begin(member, trajectory, _index(self._roles, role, "role"), depth, 0.0)

    def push(self, call: Call) -> None:
        """Adds a call. Raises DataError or ShapeError for one that breaks a rule; the rows so far stay as they are."""
        _push(self._merger, call, self._policies)

    def finish(self, *, reward: float) -> RowBlock:
        """The rows of the trajectory; the merger must not be used again."""
        columns = self._merger.finish()
        columns["row_reward"] = np.full(len(columns["row_member"]), reward, np.float64)
        return _block(columns, self._policies, self._roles)


def build_block(trajectories: Iterable[TrajectoryCalls], policies: Sequence[str], roles: Sequence[str]) -> RowBlock:
    """The rows of trajectories in the order given: by member, then by trajectory, for rows that do not depend on settle order.

    Raises DataError for a policy or role that is not named, and for calls that break a rule; ShapeError for lengths that differ.
    """
    merger = _native.Merger()
    policies, roles = tuple(policies), tuple(roles)
    for item in trajectories:
        merger.begin(item.member, item.trajectory, _index(roles, item.role, "role"), item.depth, item.reward)
        for call in item.calls:
            _push(merger, call, policies)
    return _block(merger.finish(), policies, roles)


def with_rewards(block: RowBlock, row_reward_R: NDArray[np.float64]) -> RowBlock:
    """The same rows with other rewards, float64[R]."""
    return replace(block, row_reward=row_reward_R)


def _push(merger: _native.Merger, call: Call, policies: tuple[str, ...]) -> None:
    policy = _index(policies, call.policy, "policy")
    merger.push(
        call.prompt,
        call.action,
        call.logprobs,
        policy=policy,
        version=call.version,
        routing=call.routing,
        is_error=call.is_error,
        is_message=call.is_message,
    )


def _block(columns: dict[str, NDArray[Any]], policies: tuple[str, ...], roles: tuple[str, ...]) -> RowBlock:
    return RowBlock(**columns, policies=policies, roles=roles)


def _index(names: tuple[str, ...], name: str, kind: str) -> int:
    try:
        return names.index(name)
    except ValueError:
        raise DataError(f"{kind} {name!r} is not among {', '.join(names) or 'the names of the block (none)'}") from None
