"""Views on a lock: which runnable tasks a split lists. A manifest file, a hold-out, or every task in every split."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from platoon.config.files import named_path
from platoon.config.text import printable
from platoon.envs.harbor import holdout
from platoon.envs.harbor.lock import HarborLock
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.selection import read_list_file, read_mapping, unknown_tasks
from platoon.errors import ConfigError, Problem

TRAIN = "train"
HOLDOUT_SPLITS = (TRAIN, "eval")


@dataclass(frozen=True)
class Splits:
    """named: split to task ids in order, None when every split lists `every`. holdout: counts and digest of a hold-out.

    empty: why a side of the hold-out, or a split of which all is excluded, has no task.
    """

    every: tuple[str, ...]
    named: Mapping[str, tuple[str, ...]] | None = None
    holdout: Mapping[str, Any] | None = None
    empty: Problem | None = None

    @property
    def leaks(self) -> dict[str, list[str]]:
        """Splits of a file to their tasks that are trained on as well: what is measured on these is no test."""
        train = set((self.named or {}).get(TRAIN, ()))
        shared = {split: [name for name in ids if name in train] for split, ids in (self.named or {}).items() if split != TRAIN}
        return {split: names for split, names in shared.items() if names}

    def ids(self, split: str) -> tuple[str, ...]:
        """The ids of a split. Raises ConfigError for one that is not there."""
        if self.named is None:
            return self.every
        if split not in self.named:
            raise ConfigError(
                Problem(f"no split is called {split}", key="splits", advice=f"known here: {', '.join(sorted(self.named))}")
            )
        return self.named[split]

    def without(self, excluded: Container[str]) -> Splits:
        """What is left to play of an entry that excludes tasks. Which are held out does not depend on it, nor does the digest."""

        def kept(ids: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name for name in ids if name not in excluded)

        named = None if self.named is None else {split: kept(ids) for split, ids in self.named.items()}
        held = None if self.holdout is None else {**self.holdout, **{side: len((named or {})[side]) for side in HOLDOUT_SPLITS}}
        emptied = any(ids and not kept(ids) for ids in (self.named or {}).values())
        empty = Problem("all of its tasks are excluded", key="exclude_tasks", advice="exclude fewer") if emptied else self.empty
        return replace(self, every=kept(self.every), named=named, holdout=held, empty=empty)


def split_lock(lock: HarborLock, options: HarborOptions, base: Path) -> Splits:
    """The splits of an entry; its paths are relative to `base`. Raises ConfigError."""
    if options.holdout is not None:
        result = holdout.split((row.for_holdout() for row in lock.tasks), options.holdout)
        sides = dict(zip(HOLDOUT_SPLITS, (result.train, result.eval), strict=True))
        return Splits(lock.runnable, sides, result.to_dict(), result.empty)
    if options.splits is not None:
        return Splits(lock.runnable, _manifest(lock, options.splits, base))
    return Splits(lock.runnable)


def _manifest(lock: HarborLock, path: str, base: Path) -> dict[str, tuple[str, ...]]:
    value = read_mapping(read_list_file(named_path(path, base), path), path, "splits")
    if not isinstance(value, dict) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in value.values()
    ):
        raise ConfigError(Problem("must map split names to lists of task ids", file=path))
    problems: list[Problem] = []
    for split, names in value.items():
        for name in names:
            row = lock.by_name.get(name)
            if row is None:
                problems += unknown_tasks([name], lock.by_name.keys(), split, path)
            elif row.refused is not None:
                problems.append(Problem(f"task {printable(name)} is refused: {row.refused}", key=split, file=path))
    if problems:
        raise ConfigError(problems)
    return {split: tuple(names) for split, names in value.items()}
