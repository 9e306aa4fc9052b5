"""Splits a lock into train and eval by whole groups, so that no held-out task has a sibling or an input file in training.

Pure: the same rows and options give the same split whatever their order. Rules: groups that share an input file are one; a walk in
order of a seeded hash holds a group out when every stratum it touches still has room.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

from platoon.config.model import nearest
from platoon.config.text import few, printable
from platoon.envs.harbor.options import HoldOut
from platoon.errors import ConfigError, Problem

EMPTY_FILE = "sha256:" + hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class HoldOutRow:
    """What a split needs of a lock's row. input_files: task-relative path to digest, None when the lock does not say."""

    name: str
    index: Mapping[str, Any]
    runnable: bool
    input_files: Mapping[str, str] | None


@dataclass(frozen=True)
class Split:
    """Runnable task ids of both sides in training order, and the digest that says which are held out (64 hex).

    empty: of a split with a side that has no task, why that is and what to do.
    """

    train: tuple[str, ...]
    eval: tuple[str, ...]
    eval_digest: str
    empty: Problem | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"train": len(self.train), "eval": len(self.eval), "eval_digest": self.eval_digest}


def split(rows: Iterable[HoldOutRow], options: HoldOut) -> Split:
    """The split. Raises ConfigError naming what a runnable task lacks, or a pattern that matches nothing."""
    rows = sorted(rows, key=lambda row: row.name)
    placed = _place(rows, options)
    groups = _joined_groups(placed, options)
    members: dict[str, list[str]] = defaultdict(list)
    for row, group, _ in placed:
        members[groups[group]].append(row.name)
    stratum_of = {row.name: stratum for row, _, stratum in placed}
    held = _walk(members, stratum_of, options)
    runnable = [row.name for row, _, _ in placed if row.runnable]
    order = {name: (_hash(f"{options.seed}\0{name}"), name) for name in runnable}
    eval_names = sorted((name for name in runnable if name in held), key=order.__getitem__)
    train_names = sorted((name for name in runnable if name not in held), key=order.__getitem__)
    empty = None if train_names and eval_names else _why_empty(placed, held, options)
    return Split(tuple(train_names), tuple(eval_names), eval_digest(eval_names), empty)


def eval_digest(names: Iterable[str]) -> str:
    """SHA-256 of the sorted ids joined with LF, 64 hex."""
    return _hash("\n".join(sorted(names)))


def _place(rows: Sequence[HoldOutRow], options: HoldOut) -> list[tuple[HoldOutRow, str, str]]:
    placed: list[tuple[HoldOutRow, str, str]] = []
    lacking: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    unknown_files: list[str] = []
    for row in rows:
        group = next((_text(row.index[name]) for name in options.group_fields if row.index.get(name) is not None), None)
        stratum = "" if options.stratify_by is None else row.index.get(options.stratify_by)
        if group is not None and stratum is not None:
            placed.append((row, group, _text(stratum)))
        elif row.runnable:
            key, names = ("group_by", options.group_fields) if group is None else ("stratify_by", [str(options.stratify_by)])
            lacking[key, tuple(names)].append(row.name)
        if row.runnable and row.input_files is None:
            unknown_files.append(row.name)
    known = {name for row in rows for name, value in row.index.items() if value is not None}
    problems = [
        Problem(f"{_tasks(tasks)} no field {' or '.join(names)}", key=f"holdout.{key}", advice=_lacking_advice(names, known))
        for (key, names), tasks in lacking.items()
    ]
    # What a task lacks is told above; a further field that not one has is a slip of the pen.
    problems += unknown_fields(options, known) if placed and not lacking else ()
    if unknown_files:
        rule = f"the lock does not say which input files it has of: {', '.join(unknown_files[:5])}"
        problems.append(Problem(rule, key="holdout", advice="fetch it again"))
    if problems:
        raise ConfigError(problems)
    return placed


def unknown_fields(options: HoldOut, known: Collection[str]) -> Iterator[Problem]:
    """The fields it splits by that are not among those a dataset has."""
    strata = [options.stratify_by] if options.stratify_by is not None else []
    for key, names in (("group_by", options.group_fields), ("stratify_by", strata)):
        for name in sorted({*names}.difference(known)):
            yield Problem(f"no task has a field {name}", key=f"holdout.{key}", advice=nearest(name, known))


def _lacking_advice(names: Sequence[str], known: Collection[str]) -> str:
    """What to do about tasks that have none of these fields, which others may have."""
    if any(name in known for name in names):
        return "give every task one, or leave out those without by tasks or select"
    return nearest(names[0], known)


def _tasks(names: Sequence[str]) -> str:
    return f"task {names[0]} has" if len(names) == 1 else f"{len(names)} tasks, {names[0]} first, have"


def _joined_groups(placed: Sequence[tuple[HoldOutRow, str, str]], options: HoldOut) -> dict[str, str]:
    """Each group to the name of the union it is in."""
    parent: dict[str, str] = {}

    def find(node: str) -> str:
        while parent.setdefault(node, node) != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    matched: set[str] = set()
    sizes: dict[str, int] = defaultdict(int)
    for row, group, _ in placed:
        sizes[group] += 1
        # The prefixes keep a group called like a digest apart from it.
        root = find(f"group\0{group}")
        for path in row.input_files or {}:
            matched.update(pattern for pattern in options.ignore_inputs if fnmatchcase(path, pattern))
        for _, digest in _joining_files(row, options):
            parent[find(f"file\0{digest}")] = root
            root = find(root)
    if unmatched := [pattern for pattern in options.ignore_inputs if pattern not in matched]:
        raise ConfigError(
            Problem(f"the pattern {pattern!r} matches no input file", key="holdout.ignore_inputs") for pattern in unmatched
        )
    unions: dict[str, list[str]] = defaultdict(list)
    for group in sizes:
        unions[find(f"group\0{group}")].append(group)
    names = {root: min(groups, key=lambda group: (-sizes[group], group)) for root, groups in unions.items()}
    return {group: names[find(f"group\0{group}")] for group in sizes}


def _joining_files(row: HoldOutRow, options: HoldOut) -> Iterator[tuple[str, str]]:
    """Path and digest of the files of a task that join its group with others that have them."""
    for path, digest in (row.input_files or {}).items():
        if digest != EMPTY_FILE and not any(fnmatchcase(path, pattern) for pattern in options.ignore_inputs):
            yield path, digest


def _why_empty(placed: Sequence[tuple[HoldOutRow, str, str]], held: Collection[str], options: HoldOut) -> Problem:
    groups_of: dict[str, set[str]] = defaultdict(set)
    paths: dict[str, str] = {}
    for row, group, _ in placed:
        for path, digest in _joining_files(row, options):
            groups_of[digest].add(group)
            paths.setdefault(digest, path)
    most = max(groups_of, key=lambda digest: (len(groups_of[digest]), paths[digest], digest), default="")
    key = "holdout.ignore_inputs"
    if most and len(groups_of[most]) > 1:
        count = f"{len(groups_of[most])} of the {len({group for _, group, _ in placed})} groups"
        rule = f"{count} share a file ({printable(paths[most])}) and are held out together or not at all"
        return Problem(rule, key=key, advice=f"let {key} name files that tasks of different groups may share")
    key = "holdout.fraction"
    if not any(row.runnable for row, _, _ in placed):
        return Problem("no task can run", key=key)
    if not held:
        return Problem("every group has more tasks than are to be held out", key=key, advice="raise it, or group by another field")
    if len(held) == len(placed):
        return Problem("every group is held out", key=key, advice="lower it, or add groups of tasks")
    # One of the two has tasks, and none that can run.
    sides = [[row for row, _, _ in placed if (row.name in held) is is_held] for is_held in (True, False)]
    refused = next([row.name for row in side] for side in sides if not any(row.runnable for row in side))
    rule = f"all its tasks are refused: {few(refused)}"
    return Problem(rule, key="holdout", advice="mend them, or choose another holdout.seed: refused tasks count in a split")


def _walk(members: Mapping[str, Sequence[str]], stratum_of: Mapping[str, str], options: HoldOut) -> set[str]:
    sizes: dict[str, int] = defaultdict(int)
    for stratum in stratum_of.values():
        sizes[stratum] += 1
    # The decimal as written: 0.07 of 100 is 7, not the 8 that the nearest binary fraction would give.
    fraction = Decimal(repr(options.fraction))
    room = {stratum: math.ceil(fraction * size) for stratum, size in sizes.items()}
    held: set[str] = set()
    for group in sorted(members, key=lambda group: (_hash(f"{options.seed}\0{group}"), group)):
        wanted: dict[str, int] = defaultdict(int)
        for name in members[group]:
            wanted[stratum_of[name]] += 1
        if all(count <= room[stratum] for stratum, count in wanted.items()):
            held.update(members[group])
            for stratum, count in wanted.items():
                room[stratum] -= count
    return held


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
