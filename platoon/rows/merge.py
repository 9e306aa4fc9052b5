"""From model calls to rows.

Calls of one trajectory and one policy share a row as long as each prompt extends, token for token, what the row holds so far;
only the suffix is kept, so memory grows with the row and not with the number of calls. A prompt that does not extend it, or a
call of another policy, opens a row. A call that sampled nothing adds nothing. Pieces of a prompt that are not text (`Chunk`) stand
in the token sequence as so many zeros, and extend a row only if kind, place and bytes are the same.

    merger = TrajectoryMerger(member=0, trajectory=0, policies=("main",), roles=("root",), role="root")
    merger.push(Call(prompt_T, action_T, logprobs_T, policy="main", version=3))
    block = merger.finish(reward=1.0)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from platoon import _native
from platoon._native import DataError
from platoon.rows.block import RowBlock, check_names
from platoon.rows.side import Chunk

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
    chunks: the pieces of the prompt that are not text, by place.
    """

    prompt: NDArray[np.uint32]
    action: NDArray[np.uint32]
    logprobs: NDArray[np.float32]
    policy: str
    version: int = NONE
    routing: int = NONE
    is_error: bool = False
    is_message: bool = False
    chunks: tuple[Chunk, ...] = ()


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
        self._policies, self._roles = tuple(policies), tuple(roles)
        check_names(policies=self._policies, roles=self._roles)
        self._merger = _native.Merger(list(self._policies), list(self._roles))
        # The reward is known only at the end; `finish` puts it in.
        self._merger.begin(member, trajectory, role, depth, 0.0)

    def push(self, call: Call) -> None:
        """Adds a call. Raises DataError or ShapeError for one that breaks a rule; the rows so far stay as they are."""
        self._merger.push(call)

    def finish(self, *, reward: float) -> RowBlock:
        """The rows of the trajectory; the merger must not be used again. DataError for a reward that is not finite."""
        if not math.isfinite(reward):
            raise DataError(f"row_reward is {reward}: must be finite")
        columns = self._merger.finish()
        columns["row_reward"] = np.full(len(columns["row_member"]), reward, np.float64)
        return RowBlock.of_core(columns | {"policies": self._policies, "roles": self._roles})


def build_block(trajectories: Iterable[TrajectoryCalls], policies: Sequence[str], roles: Sequence[str]) -> RowBlock:
    """The rows of trajectories in the order given: by member, then by trajectory, for rows that do not depend on settle order.

    Raises DataError for a policy or role that is not named, and for calls that break a rule; ShapeError for lengths that differ.
    """
    policies, roles = tuple(policies), tuple(roles)
    check_names(policies=policies, roles=roles)
    merger = _native.Merger(list(policies), list(roles))
    merger.extend(trajectories)
    return RowBlock.of_core(merger.finish() | {"policies": policies, "roles": roles})
