"""Baselines of agents: the mean reward of their peers, by any key, with or without themselves.

Functions take one entry an agent (A agents) and return one; advantages are `reward - baseline`. Sums run in f64 in the order of
the entries: give agents by member, then by trajectory, and the result does not depend on which rollout settled first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from platoon import _native
from platoon._native import DataError, ShapeError


def keyed_baselines(
    key_A: NDArray[np.int64], reward_A: NDArray[np.float64], is_peer_A: NDArray[np.bool_], *, leave_one_out: bool = False
) -> NDArray[np.float64]:
    """float64[A]: each agent's baseline among the peers that share its key.

    key_A: int64, as `agent_keys` makes them. reward_A: float64, finite where `is_peer_A`. An agent that is no peer has the plain
    mean of its key's peers. A key without peers gives its agents their own reward, and so does a lone peer under `leave_one_out`:
    their advantage is 0.

    Raises DataError for a peer's reward that is not finite, ShapeError for lengths that differ.
    """
    return _native.baselines(key_A, reward_A, is_peer_A, leave_one_out)


def group_baselines(
    root_reward_M: NDArray[np.float64], is_trainable_M: NDArray[np.bool_], *, leave_one_out: bool = False
) -> NDArray[np.float64]:
    """float64[M]: each member's baseline among the trainable members of one group, from the rewards of their roots."""
    return keyed_baselines(np.zeros(len(root_reward_M), np.int64), root_reward_M, is_trainable_M, leave_one_out=leave_one_out)


def agent_keys(*columns_A: ArrayLike) -> NDArray[np.int64]:
    """int64[A]: equal where all columns are equal; numbered by order of first appearance.

    Columns are any of an agent's task, policy, role and depth, of A entries each: integers or names. Without a column DataError,
    with lengths that differ ShapeError.
    """
    if not columns_A:
        raise DataError("a key needs at least one of task, policy, role and depth")
    columns: Sequence[NDArray[np.generic]] = [np.asarray(column) for column in columns_A]
    if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
        raise ShapeError(f"key columns of shapes {', '.join(str(column.shape) for column in columns)}: one length is expected")
    numbers: dict[tuple[object, ...], int] = {}
    keys = [numbers.setdefault(key, len(numbers)) for key in zip(*(column.tolist() for column in columns), strict=True)]
    return np.array(keys, np.int64)
