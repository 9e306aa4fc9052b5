"""The first difference between a lock's bytes and the lock made again: which task, which key, what each says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from platoon.artifacts.reading import parse_json
from platoon.config.text import printable, show
from platoon.envs.harbor.lock import HEAD_KEYS, HarborLock

NOTHING = "nothing"


@dataclass(frozen=True)
class LockDifference:
    """task: None for the head. key: dotted, empty for a task that one of them lacks. locked, now: what each says, as a person
    reads it."""

    task: str | None
    key: str
    locked: str
    now: str

    def __str__(self) -> str:
        task = "" if self.task is None else f"task {printable(self.task)}: "
        if not self.key:
            return f"{task}is new" if self.locked == NOTHING else f"{task}is no longer in the dataset"
        return f"{task}{self.key}: locked {self.locked}, now {self.now}"


def first_difference(locked: bytes, now: HarborLock) -> LockDifference | None:
    """What the bytes of a lock say otherwise than the lock made again; None for equal bytes. Raises ValueError for no JSON."""
    made = now.to_bytes()
    if locked == made:
        return None
    old, new = parse_json(locked), parse_json(made)
    # Tasks first: what differs in the head is mostly a digest over them.
    rows = [{str(row["name"]): row for row in value["tasks"]} for value in (old, new)]
    for name in sorted(rows[0].keys() | rows[1].keys()):
        if not all(name in part for part in rows):
            return LockDifference(name, "", *("a row" if name in part else NOTHING for part in rows))
        if (found := _first(rows[0][name], rows[1][name])) is not None:
            return LockDifference(name, *found)
    others = sorted(key for key in old.keys() | new.keys() if key not in (*HEAD_KEYS, "plans", "tasks"))
    for key in (*HEAD_KEYS, *others, "plans"):
        sides = [{key: value[key]} if key in value else {} for value in (old, new)]
        if (found := _first(sides[0], sides[1])) is not None:
            return LockDifference(None, *found)
    # The same values, written otherwise: a row or key twice, another order or form.
    lines = zip_longest(locked.split(b"\n"), made.split(b"\n"))
    number, pair = next((number, pair) for number, pair in enumerate(lines, 1) if pair[0] != pair[1])
    told = [NOTHING if line is None else show(line.decode("utf-8", "replace")) for line in pair]
    return LockDifference(None, f"line {number}", *told)


def _first(old: Any, new: Any, path: tuple[str, ...] = ()) -> tuple[str, str, str] | None:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            if key not in old or key not in new:
                told = [show(part[key]) if key in part else NOTHING for part in (old, new)]
                return ".".join((*path, key)), told[0], told[1]
            if (found := _first(old[key], new[key], (*path, key))) is not None:
                return found
        return None
    plain = [list(value) if isinstance(value, tuple) else value for value in (old, new)]
    return None if plain[0] == plain[1] and type(plain[0]) is type(plain[1]) else (".".join(path), show(plain[0]), show(plain[1]))
