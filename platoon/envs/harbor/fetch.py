"""Fetches a dataset: lists, selects, checks, copies into the cache and writes the lock. All or nothing, and taken in turns.

The lock is published last, so a fetch that fails or is killed leaves the older lock, or none; tasks that reached the cache by then
are whole and are found again by content.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from platoon.artifacts.publish import WRITABLE, publish_json
from platoon.config.text import printable
from platoon.envs.harbor import rows, selection
from platoon.envs.harbor.content import HASH_ERRORS, read_contents, tree_problems
from platoon.envs.harbor.lock import HarborLock, LockRow, tree_digest
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache, make_durable, publish_task, sweep_staging
from platoon.envs.harbor.selection import Allowlist
from platoon.envs.harbor.source import Source, SourceTask, open_source
from platoon.errors import ConfigError, Problem
from platoon.host.locks import file_lock

FETCH_TIMEOUT_S = 3600.0
SHOWN_PROBLEMS = 20


@dataclass(frozen=True)
class Fetched:
    """path: the lock by name. copied: how many tasks were not in the cache yet."""

    lock: HarborLock
    path: Path
    copied: int


def fetch(options: HarborOptions, base: Path, cache: HarborCache) -> Fetched:
    """Fetches the dataset of an entry whose paths are relative to `base`. Raises ConfigError with every problem found."""
    assert options.dataset is not None
    source = open_source(options.dataset, base)
    lists = selection.read_allowlists(options, base)
    inputs = inputs_digest(options, lists)
    name = lock_name(inputs, source)
    with file_lock(cache.fetch_lock(name), timeout_s=FETCH_TIMEOUT_S, what=f"fetching {source.reference}"):
        started = time.time()
        sweep_staging(cache)
        listed = selection.add_index_files(source.list_tasks(), options, source)
        chosen = selection.select(listed, options, lists, source.reference)
        built, copied = _fetch_tasks(chosen, options, source, cache)
        lock = HarborLock(
            dataset=source.reference,
            resolved=tree_digest(built),
            source=source.describe(),
            fetched_with=source.fetched_with,
            inputs=inputs,
            selection=_selection(options, lists, len(chosen), len(listed)),
            tasks=tuple(built),
        )
        path = cache.lock_by_name(name)
        make_durable(cache)
        lock.write(cache.lock_by_digest(lock.digest))
        lock.write(path)
        meta = {"created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "seconds": round(time.time() - started, 3)}
        publish_json(path.with_name(path.name.replace(".lock.json", ".lock.meta.json")), meta, WRITABLE)
    return Fetched(lock, path, copied)


def inputs_digest(options: HarborOptions, lists: Sequence[Allowlist]) -> str:
    """64 hex over what was asked for, as the rule for locks has it; not over what the dataset holds."""
    refuse: dict[str, Any] = {
        "agent_user": options.refuse.agent_user,
        "gpus": options.refuse.gpus,
        "per_task_build": options.refuse.per_task_build,
        "sidecars": options.refuse.effective_sidecars,
    }
    if not options.refuse.privileges:
        refuse["privileges"] = False
    if options.refuse.uploads_over_mb is not None:
        refuse["uploads_over_mb"] = options.refuse.uploads_over_mb
    payload = {
        "dataset": options.dataset,
        "tasks": [item.digest for item in lists],
        "select": {key: value if isinstance(value, list) else [value] for key, value in options.select.items()},
        "overlays": [],
        "refuse": refuse,
        "index": [
            {"path": item, "key": "task_id", "fields": None} if isinstance(item, str) else item.plain() for item in options.index
        ],
    }
    return hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()


def lock_name(inputs: str, source: Source) -> str:
    """The file name of a lock without suffix; a local dataset's place enters, so that two `data` directories do not share one."""
    place = getattr(source, "root", None)
    if place is None:
        return inputs[:16]
    return hashlib.sha256(f"{inputs}\0{place.absolute()}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _fetch_tasks(
    chosen: Sequence[SourceTask], options: HarborOptions, source: Source, cache: HarborCache
) -> tuple[list[LockRow], int]:
    built: list[LockRow] = []
    problems: list[Problem] = []
    copied = 0
    names = selection.metadata_fields(options)
    for task in chosen:
        directory = source.materialise(task)
        shown = f"{source.reference}/{printable(task.id)}"
        found = list(tree_problems(directory, shown))
        if found:
            problems.extend(found)
            continue
        try:
            contents = read_contents(directory)
            index = selection.add_metadata(task.index, rows.read_metadata(directory) if names else {}, names, printable(task.id))
            built.append(rows.build_row(task, directory, contents, index, options))
            if not problems:
                copied += publish_task(directory, contents, cache)
        except ConfigError as error:
            problems.extend(error.problems)
        except HASH_ERRORS as error:
            problems.append(Problem(f"cannot be read: {printable(str(error))}", file=shown))
    if problems:
        more = len(problems) - SHOWN_PROBLEMS
        raise ConfigError(
            problems[:SHOWN_PROBLEMS] + ([Problem(f"and {more} more problems", file=source.reference)] if more > 0 else [])
        )
    return _refuse_per_task_builds(built, options), copied


def _refuse_per_task_builds(built: list[LockRow], options: HarborOptions) -> list[LockRow]:
    if not options.refuse.per_task_build:
        return built
    users: dict[str, int] = {}
    for row in built:
        if row.runnable and row.image_key is not None:
            users[row.image_key] = users.get(row.image_key, 0) + 1
    why = "per_task_build: no other task shares the image it builds"
    return [replace(row, refused=why) if row.runnable and users.get(row.image_key or "") == 1 else row for row in built]


def _selection(options: HarborOptions, lists: Sequence[Allowlist], selected: int, of: int) -> Mapping[str, Any]:
    return {"tasks": {item.path: item.digest for item in lists}, "select": dict(options.select), "selected": selected, "of": of}
