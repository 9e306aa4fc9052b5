"""What an entry asks for, as a digest, and which lock answers it: its own, or one that release 0.4 wrote for the same question.

Pure but for reading locks. A lock answers when it records the digest of what is asked and follows our rules; it is current when the
cache also has its tasks. A lock of 0.4 is compared with the question as 0.4 put it, where stacks were refused by default.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platoon.config.files import named_path
from platoon.config.text import counted
from platoon.envs.harbor.lock import HarborLock
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.overlays import Overlay, overlays_digest, read_overlay
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.selection import Allowlist, read_allowlists
from platoon.envs.harbor.sources.directory import DirectorySource
from platoon.envs.harbor.sources.opening import open_source, portable_options
from platoon.envs.harbor.sources.protocol import Source
from platoon.errors import ConfigError, Problem

SUFFIX = ".lock.json"
META_SUFFIX = ".lock.meta.json"


@dataclass(frozen=True)
class Request:
    """What an entry asks for. inputs: its digest, 64 hex. path: where its lock is. legacy_inputs: the digest as 0.4 made it.

    latest_path: of its source in its folder, whatever is asked for, where the digest of the latest lock is.
    """

    options: HarborOptions
    source: Source
    lists: tuple[Allowlist, ...]
    overlays: tuple[Overlay, ...]
    inputs: str
    legacy_inputs: str
    path: Path
    legacy_path: Path
    latest_path: Path

    @property
    def lock_key(self) -> str:
        """Names the file lock under which fetches of this lock take turns."""
        return hashlib.sha256(str(self.path.absolute()).encode("utf-8", "surrogateescape")).hexdigest()[:16]


@dataclass(frozen=True)
class Answer:
    """A lock that answers. path: where it was read."""

    lock: HarborLock
    path: Path


@dataclass(frozen=True)
class Search:
    """answer: None where there is none. passed_over: locks that were there and do not answer, each with why, for messages.

    earlier: where there is no answer, a lock of the same source that answered another question.
    """

    answer: Answer | None
    passed_over: tuple[str, ...] = ()
    earlier: HarborLock | None = None


def read_request(options: HarborOptions, base: Path, cache: HarborCache) -> Request:
    """The request of an entry that is fetched; paths are relative to `base`. Raises ConfigError with every problem."""
    written, options = options, portable_options(options, base)
    source = open_source(options, base)
    problems: list[Problem] = []
    lists: list[Allowlist] = []
    overlays: list[Overlay] = []
    asked: Mapping[str, Any] = {}
    try:
        lists = read_allowlists(options, base)
    except ConfigError as error:
        problems.extend(error.problems)
    for path in options.overlays:
        try:
            overlays.append(read_overlay(named_path(path, base)))
        except ConfigError as error:
            problems.extend(error.problems)
    try:
        asked = source.inputs()
    except ConfigError as error:
        problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)
    inputs = inputs_digest(options, lists, overlays, asked)
    legacy = inputs_digest(written, lists, overlays, asked, legacy=True)
    named = None if options.lock is None else named_path(options.lock, base)
    return Request(
        options,
        source,
        tuple(lists),
        tuple(overlays),
        inputs,
        legacy,
        named or cache.lock_by_name(lock_name(inputs, source)),
        named or cache.lock_by_name(legacy[:16]),
        cache.latest_lock(_source_name(source, base, asked)),
    )


def inputs_digest(
    options: HarborOptions,
    lists: Sequence[Allowlist],
    overlays: Sequence[Overlay] = (),
    asked: Mapping[str, Any] | None = None,
    *,
    legacy: bool = False,
) -> str:
    """64 hex over what was asked for, as the rule for locks has it; not over what the dataset holds. asked: of the source."""
    wanted = options.refuse
    refuse: dict[str, Any] = {
        "agent_user": wanted.agent_user,
        "gpus": wanted.gpus,
        "per_task_build": wanted.per_task_build,
        "sidecars": True if legacy and not wanted.sets_sidecars else wanted.effective_sidecars,
    }
    if not wanted.privileges:
        refuse["privileges"] = False
    if wanted.uploads_over_mb is not None:
        refuse["uploads_over_mb"] = wanted.uploads_over_mb
    payload = {
        "dataset": options.dataset,
        "tasks": [item.digest for item in lists],
        "select": {key: value if isinstance(value, list) else [value] for key, value in options.select.items()},
        "overlays": [overlay.digest for overlay in overlays],
        "refuse": refuse,
        "index": [
            {"path": item, "key": "task_id", "fields": None} if isinstance(item, str) else item.plain() for item in options.index
        ],
        **(asked or {}),
    }
    if overlays and not legacy:
        # A name stands in the rows of what it changes, and may be the directory's alone, so outside the digest.
        payload["overlay_names"] = [overlay.name for overlay in overlays]
    return hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()


def lock_name(inputs: str, source: Source) -> str:
    """The file name of a lock without suffix; a local dataset's place enters, so that two `data` directories do not share one."""
    if not isinstance(source, DirectorySource):
        return inputs[:16]
    return hashlib.sha256(f"{inputs}\0{source.root.absolute()}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _source_name(source: Source, base: Path, asked: Mapping[str, Any]) -> str:
    """Names a source as the configurations of a folder mean it."""
    parts = [os.path.realpath(base), source.reference, json.dumps(asked, sort_keys=True)]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def find_answer(request: Request, cache: HarborCache) -> Search:
    """The lock that answers a request, if there is one."""
    passed_over: list[str] = []
    earlier: list[HarborLock] = []
    for path in dict.fromkeys((request.path, request.legacy_path)):
        if not path.is_file():
            continue
        try:
            lock = HarborLock.read(path)
        except ConfigError as error:
            passed_over.append(str(error.problems[0]))
            continue
        why = why_not(lock, request)
        if why is None:
            return Search(Answer(lock, path), tuple(passed_over))
        passed_over.append(f"{path}: {why}")
        earlier.append(lock)
    with suppress(ConfigError, OSError, ValueError):
        earlier.append(HarborLock.read(cache.lock_by_digest(request.latest_path.read_text().strip())))
    of_source = (lock for lock in earlier if lock.dataset == request.source.reference)
    return Search(None, tuple(passed_over), next(of_source, None))


def why_not(lock: HarborLock, request: Request) -> str | None:
    """Why a lock does not answer a request, None when it does."""
    if not lock.is_legacy:
        return None if lock.inputs == request.inputs else "was written for other settings"
    if lock.inputs != request.legacy_inputs or lock.overlay != overlays_digest(request.overlays):
        return "is of release 0.4 and was written for other settings"
    stacks = sum(1 for row in lock.tasks if (row.refused or "").startswith("stack:"))
    if stacks and not request.options.refuse.effective_sidecars:
        return f"is of release 0.4 and refused {counted(stacks, 'task')} as stacks, which are no longer refused"
    return None


def is_current(lock: HarborLock, cache: HarborCache) -> bool:
    """Whether nothing is left to fetch: the lock knows the input files, and the cache has a directory for each task."""
    return all(row.input_files is not None and cache.has_task(row.digest) for row in lock.tasks)


def meta_path(path: Path) -> Path:
    """Where the time and duration of a fetch stand, beside its lock."""
    name = path.name.removesuffix(SUFFIX) if path.name.endswith(SUFFIX) else path.name
    return path.with_name(f"{name}{META_SUFFIX}")
