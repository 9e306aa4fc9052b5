"""Statistics per task: how often it was tried, what came of it, and the fates of its draws.

Groups are held when they settle and taken in by `(start, seq)` at a flush, so that nothing depends on which settled first. A member
counts as an attempt when its root was measured, and as a pass when its reward reaches the entry's threshold.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from platoon.train.task_records.fates import Fate, Verdict

log = logging.getLogger(__name__)

HISTORY = 8
FORMAT = 1


@dataclass
class TaskRecord:
    """attempts, passes: members measured and passed. history: (passes, attempts) of the newest groups, oldest first."""

    groups: int = 0
    attempts: int = 0
    passes: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    fates: Counter[str] = field(default_factory=Counter)
    history: list[list[int]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return {
            "groups": self.groups,
            "attempts": self.attempts,
            "passes": self.passes,
            "kinds": dict(self.kinds),
            "fates": dict(self.fates),
            "history": [list(item) for item in self.history],
        }


@dataclass(frozen=True)
class GroupRecord:
    """One settled group. rewards: of its measured members, in order of member."""

    start: int
    seq: int
    task: str
    verdict: Verdict
    rewards: tuple[float, ...]
    threshold: float

    @property
    def passes(self) -> int:
        return sum(reward >= self.threshold for reward in self.rewards)

    @property
    def kind(self) -> str:
        """informative, all_pass, all_fail, uniform_mixed, or the verdict of a group that trains nothing."""
        return group_kind(self.verdict, self.passes, len(self.rewards))


def group_kind(verdict: Verdict, passes: int, attempts: int) -> str:
    if verdict is Verdict.TRAINED:
        return "informative"
    if verdict is not Verdict.UNIFORM:
        return str(verdict)
    if passes == attempts:
        return "all_pass"
    return "all_fail" if passes == 0 else "uniform_mixed"


class TaskRecords:
    """The records of a run, by `<entry>::<task id>`."""

    def __init__(self) -> None:
        self._records: dict[str, TaskRecord] = {}
        self._held: list[GroupRecord] = []

    def settled(self, record: GroupRecord) -> None:
        self._held.append(record)

    def ended(self, task: str, fate: Fate) -> None:
        self._record(task).fates[str(fate)] += 1

    def flush(self) -> None:
        """Takes in what is held, in draw order."""
        for item in sorted(self._held, key=lambda held: (held.start, held.seq)):
            record = self._record(item.task)
            record.groups += 1
            record.attempts += len(item.rewards)
            record.passes += item.passes
            record.kinds[item.kind] += 1
            record.history = [*record.history, [item.passes, len(item.rewards)]][-HISTORY:]
        self._held.clear()

    @property
    def measured(self) -> bool:
        """Whether any group had a measured member and rows, over all starts."""
        held = any(item.rewards and item.verdict is not Verdict.NO_DATUMS for item in self._held)
        return held or any(record.attempts and record.groups > record.kinds[Verdict.NO_DATUMS] for record in self._records.values())

    def get(self, task: str) -> TaskRecord:
        """The record of a task; an empty one for a task never drawn."""
        self.flush()
        return self._records.get(task, TaskRecord())

    def capture(self) -> dict[str, Any]:
        self.flush()
        return {"format": FORMAT, "tasks": {task: self._records[task].to_dict() for task in sorted(self._records)}}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Takes up a capture; what is no capture of this format leaves the records empty, since statistics never stop training."""
        try:
            if value["format"] == FORMAT:
                self._records = {task: _record(row) for task, row in value["tasks"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            log.warning("the statistics of tasks begin anew: %s: %s", type(error).__name__, error)

    def stale_by_task(self, tasks: Iterable[str] | None = None) -> dict[str, int]:
        """How many draws of each task ended stale, for the tasks that have any."""
        names = self._records if tasks is None else tasks
        counts = {task: self._records[task].fates[str(Fate.STALE)] for task in names if task in self._records}
        return {task: count for task, count in sorted(counts.items()) if count}

    def _record(self, task: str) -> TaskRecord:
        return self._records.setdefault(task, TaskRecord())


def _record(row: Mapping[str, Any]) -> TaskRecord:
    return TaskRecord(
        int(row["groups"]),
        int(row["attempts"]),
        int(row["passes"]),
        Counter(row["kinds"]),
        Counter(row["fates"]),
        [list(item) for item in row["history"]],
    )
