"""What an estimator gets and gives. It returns values per row and changes nothing; core puts them on action tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from platoon.core.outcome import Status
from platoon.errors import PlatoonError
from platoon.rows.block import RowBlock
from platoon.rows.merge import TrajectoryCalls


class CreditEstimatorError(PlatoonError):
    """An estimator failed: the run ends, since training on with other credit would be another run."""


class MemberView(Protocol):
    """What credit reads of a member."""

    @property
    def member(self) -> int: ...

    @property
    def status(self) -> Status: ...

    @property
    def reward(self) -> float | None: ...

    @property
    def trainable(self) -> bool: ...


@dataclass(frozen=True)
class CreditGroup:
    """One settled group. members: all of them, in order. agents: every agent of trainable members, by member, then trajectory.

    block: the rows, whose `row_member` and `row_trajectory` name their agent. Agents of frozen policies have no rows.
    """

    entry: str
    task_id: str
    members: tuple[MemberView, ...]
    agents: tuple[TrajectoryCalls, ...]
    block: RowBlock


@dataclass(frozen=True)
class Credit:
    """values_R: float64[R]. metrics: under names of the metrics registry."""

    values_R: npt.NDArray[np.float64]
    metrics: Mapping[str, float] = field(default_factory=dict)


class CreditEstimator(Protocol):
    """Pure: the same group gives the same credit."""

    def assign(self, group: CreditGroup) -> Credit: ...
