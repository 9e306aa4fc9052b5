"""Baselines of agents: the mean reward of their peers, by any key, with or without themselves.

Functions take one entry an agent (A agents) and return one; advantages are `reward - baseline`. Sums run in f64 in the order of
the entries: give agents by member, then by trajectory, and the result does not depend on which rollout settled first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from platoon import _native
from platoon._native import ShapeError

_KEY_DTYPES = (np.int64, np.uint32, np.uint16)


def keyed_baselines(
    key_A: NDArray[Any] | Sequence[ArrayLike],
    reward_A: NDArray[np.float64],
    is_peer_A: NDArray[np.bool_],
    *,
    leave_one_out: bool = False,
) -> NDArray[np.float64]:
    """float64[A]: each agent's baseline among the peers that share its key.

    key_A: one integer column, or several columns that make the key together, as `agent_keys` takes them. reward_A: float64, finite
    where `is_peer_A`. An agent that is no peer has the plain mean of its key's peers. A key without peers gives its agents their
    own reward, and so does a lone peer under `leave_one_out`: their advantage is 0.

    Raises DataError for a peer's reward that is not finite, rewards too large to add, and a key without a column; ShapeError for
    lengths that differ.
    """
    columns = [key_A] if isinstance(key_A, np.ndarray) else key_A
    return _native.baselines([_key_column(column) for column in columns], reward_A, is_peer_A, leave_one_out)


def group_baselines(
    root_reward_M: NDArray[np.float64], is_trainable_M: NDArray[np.bool_], *, leave_one_out: bool = False
) -> NDArray[np.float64]:
    """float64[M]: each member's baseline among the trainable members of one group, from the rewards of their roots."""
    return keyed_baselines(np.zeros(len(root_reward_M), np.int64), root_reward_M, is_trainable_M, leave_one_out=leave_one_out)


def agent_keys(*columns_A: ArrayLike) -> NDArray[np.int64]:
    """int64[A]: equal where all columns are equal; numbered by order of first appearance.

    Columns are any of an agent's task, policy, role and depth, of A entries each: integers (no copy of int64, uint32 and uint16
    arrays) or names. Without a column DataError, with lengths that differ ShapeError.
    """
    return _native.dense_keys([_key_column(column) for column in columns_A])


def _key_column(column: ArrayLike) -> NDArray[Any]:
    """The column as the core takes it; names are numbered."""
    values = np.asarray(column)
    if values.ndim != 1:
        raise ShapeError(f"key: {values.ndim} dimensions where 1 is expected")
    if values.dtype in _KEY_DTYPES:
        return np.ascontiguousarray(values)
    if values.dtype.kind in "iub":
        # Only equality counts: the bits of a large unsigned integer are as good as its value.
        return values.astype(np.int64)
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in values.tolist()], np.int64)
