"""Which rollouts an evaluation is made of: pure, and the same before and after a training."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

SAFE = re.compile(r"[^A-Za-z0-9._-]+")
NAME_LIMIT = 80


@dataclass(frozen=True)
class PlannedRollout:
    """One rollout. position: what its seeds depend on beside the run's seed and the index; a function of entry and task alone."""

    entry: str
    task_id: str
    index: int
    position: int

    @property
    def directory(self) -> PurePosixPath:
        """Where it is stored, below the evaluation's output directory."""
        return PurePosixPath("rollouts") / safe_name(self.entry, self.task_id) / f"rollout_{self.index}"


def plan_rollouts(tasks: Iterable[tuple[str, Sequence[str]]], per_task: int) -> tuple[PlannedRollout, ...]:
    """tasks: entry label and its task ids. The first rollout of every task stands before the second of any."""
    pairs = [(entry, task) for entry, ids in tasks for task in ids]
    return tuple(PlannedRollout(entry, task, index, position_of(entry, task)) for index in range(per_task) for entry, task in pairs)


def position_of(entry: str, task_id: str) -> int:
    """31 bits of SHA-256 over entry and task: adding a task to the split does not change the others' seeds."""
    return int.from_bytes(hashlib.sha256(f"{entry}\0{task_id}".encode()).digest()[:4], "big") >> 1


def safe_name(entry: str, task_id: str) -> str:
    """A file name for a task: readable, and never that of another task."""
    name = task_id if entry == "default" else f"{entry}::{task_id}"
    clean = SAFE.sub("-", name).strip(".-")[:NAME_LIMIT]
    if clean == name:
        return clean
    return f"{clean}-{hashlib.sha256(name.encode()).hexdigest()[:10]}".lstrip("-")
