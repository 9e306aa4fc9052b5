"""Which rows are too old to train: one pass over the rows of one or more groups, for all policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from platoon import _native
from platoon._native import DataError
from platoon.rows.block import RowBlock

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class StaleRows:
    """What either filter drops.

    is_stale_R: bool[R], too old under its own policy's bound; the filter by row drops it.
    is_group_stale_R: bool[R], it or another row of its policy in its group is too old; the filter by group drops it.
    """

    is_stale_R: NDArray[np.bool_]
    is_group_stale_R: NDArray[np.bool_]


def stale_rows(
    block: RowBlock,
    current_versions: Mapping[str, int] | Sequence[int],
    bounds: Mapping[str, int | None] | Sequence[int | None],
    *,
    group_of_row_R: NDArray[np.uint32] | None = None,
    group_count: int = 1,
) -> StaleRows:
    """Judges each row by `current - row_version > bound` of its policy.

    current_versions, bounds: by policy name, or in the order of `block.policies`; a bound of None never makes a row stale, and a
    row without a version counts as current. group_of_row_R: uint32[R] below `group_count`; without it all rows are one group.

    Raises DataError for a policy without version or bound and a group out of range, ShapeError for lengths that differ.
    """
    current = _by_policy(block.policies, current_versions, "current version")
    group_R = np.zeros(block.row_count, np.uint32) if group_of_row_R is None else group_of_row_R
    return StaleRows(
        *_native.stale_rows(
            block.row_version, block.row_policy, group_R, group_count, current, _by_policy(block.policies, bounds, "bound")
        )
    )


def oldest_versions(call_version_C: NDArray[np.int64], call_offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[R]: the oldest version among each row's calls, -1 where none has one; what a block keeps as `row_version`.

    call_version_C: int64[C], -1 for none. call_offsets: int64[R+1], which calls are a row's. Raises DataError where they do not cut
    the calls into rows, ShapeError where they fall.
    """
    return _native.oldest_versions(call_version_C, call_offsets)


def _by_policy(policies: tuple[str, ...], values: Mapping[str, Value] | Sequence[Value], what: str) -> list[Value]:
    if not isinstance(values, Mapping):
        if len(values) != len(policies):
            raise DataError(f"{what}: {len(values)} values for {len(policies)} policies")
        return list(values)
    missing = [policy for policy in policies if policy not in values]
    if missing:
        raise DataError(f"{what}: none for policy {', '.join(missing)}")
    return [values[policy] for policy in policies]
