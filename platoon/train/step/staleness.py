"""Which rows of a settled group are fresh enough to train, policy by policy.

Credit came first, over the whole group; here each policy's rows are judged by that policy's version and bound, so that what is
stale for one takes nothing from another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from platoon.rows.block import RowBlock
from platoon.rows.stale import stale_rows
from platoon.train.dispatch.draw import Fate
from platoon.train.dispatch.settled import SettledGroup
from platoon.train.step.settings import StepSettings


@dataclass(frozen=True, eq=False)
class JudgedGroup:
    """rows: by policy, the block's rows it trains (rising indices). stale_rows: rows dropped. ages: versions behind, kept rows."""

    group: SettledGroup
    rows: Mapping[str, npt.NDArray[np.int64]]
    stale_rows: int
    ages: npt.NDArray[np.int64]

    @property
    def fate(self) -> Fate:
        output = self.group.output
        if output.block is None:
            return Fate.FAILED if output.gave_nothing else Fate.CONSUMED
        return Fate.CONSUMED if self.rows or not self.stale_rows else Fate.STALE


def judge(group: SettledGroup, versions: Mapping[str, int], settings: StepSettings) -> JudgedGroup:
    """Keeps what `versions` (now, by trained policy) and the bounds of the group's entry allow.

    Under the filter by group, one stale row of a policy takes all of that policy's rows in the group.
    """
    block = group.output.block
    if block is None or not block.row_count:
        return JudgedGroup(group, {}, 0, np.zeros(0, np.int64))
    is_stale_R = _stale(block, versions, settings.bounds[group.draw.entry], by_datum=settings.by_datum)
    rows = {}
    for index, policy in enumerate(block.policies):
        kept = np.flatnonzero((block.row_policy == index) & ~is_stale_R).astype(np.int64)
        if policy in versions and len(kept):
            rows[policy] = kept
    ages = [_ages(block, kept, versions[policy]) for policy, kept in rows.items()]
    return JudgedGroup(group, rows, int(is_stale_R.sum()), np.concatenate(ages) if ages else np.zeros(0, np.int64))


def _stale(
    block: RowBlock, versions: Mapping[str, int], bounds: Mapping[str, int | None], *, by_datum: bool
) -> npt.NDArray[np.bool_]:
    current = {policy: versions.get(policy, 0) for policy in block.policies}
    bound = {policy: bounds.get(policy) for policy in block.policies}
    stale = stale_rows(block, current, bound)
    return stale.is_stale_R if by_datum else stale.is_group_stale_R


def _ages(block: RowBlock, rows: npt.NDArray[np.int64], version: int) -> npt.NDArray[np.int64]:
    # Rows without a version count as current.
    row_version = block.row_version[rows]
    return np.where(row_version < 0, 0, version - row_version)
