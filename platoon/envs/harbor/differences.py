"""The first difference between two locks, in the order of their bytes: which task, which key, what each says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from platoon.config.text import printable, show
from platoon.envs.harbor.lock import HEAD_KEYS, HarborLock

NOTHING = "nothing"


@dataclass(frozen=True)
class LockDifference:
    """task: None for the head. key: dotted. locked, now: what each says, as a person reads it."""

    task: str | None
    key: str
    locked: str
    now: str

    def __str__(self) -> str:
        place = self.key if self.task is None else f"task {printable(self.task)}" + (f": {self.key}" if self.key else "")
        return f"{place}: locked {self.locked}, now {self.now}"


def first_difference(locked: HarborLock, now: HarborLock) -> LockDifference | None:
    """None for locks of equal bytes."""
    if locked.to_bytes() == now.to_bytes():
        return None
    # Tasks first: what differs in the head is mostly a digest over them.
    old, new = locked.by_name, now.by_name
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            return LockDifference(name, "", *("a row" if name in rows else NOTHING for rows in (old, new)))
        if (found := _first(old[name].to_dict(), new[name].to_dict())) is not None:
            return LockDifference(name, *found)
    for key in HEAD_KEYS:
        if (found := _first({key: getattr(locked, key)}, {key: getattr(now, key)})) is not None:
            return LockDifference(None, *found)
    found = _first({"plans": locked.plans}, {"plans": now.plans})
    assert found is not None, "bytes that differ have a value that differs"
    return LockDifference(None, *found)


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
