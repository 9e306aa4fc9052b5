"""A draw: one decision to run a task once, as a group, at one position of the run's endless order."""

from __future__ import annotations

from dataclasses import dataclass

from platoon.train.task_records.fates import Fate

__all__ = ["Draw", "DrawKey", "Fate"]

# (start, seq): unique in a run. A draw reissued by a later start has a new key and keeps its position.
DrawKey = tuple[int, int]


@dataclass(frozen=True)
class Draw:
    """start: number of the process lifetime that decided it. seq: running number in that start. position: place in the order.

    entry: label of its environment entry. task_id: the id within the entry. pool_index: row of the task in the run's pool.
    """

    start: int
    seq: int
    position: int
    entry: str
    task_id: str
    pool_index: int

    @property
    def key(self) -> DrawKey:
        return (self.start, self.seq)
