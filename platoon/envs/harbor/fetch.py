"""Fetches a dataset: resolves, lists, selects, checks, copies into the cache and writes the lock. All or nothing, and in turns.

The lock is published last, so a fetch that fails or is killed leaves the older lock, or none; tasks that reached the cache by then
are whole and are found again. What moves (a branch, a tag) is resolved anew only when an update is asked for; what is pinned and
current is not fetched at all.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from platoon.artifacts.publish import WRITABLE, publish_bytes, publish_json
from platoon.config.text import few, printable, short_path
from platoon.envs.harbor import selection
from platoon.envs.harbor.answers import Answer, Request, Search, find_answer, is_current, meta_path, read_request
from platoon.envs.harbor.lock import HarborLock, tree_digest
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.overlays import overlays_digest
from platoon.envs.harbor.publish import HarborCache, make_durable, sweep_staging
from platoon.envs.harbor.reuse import Changes, Reuse, changes, rows_of
from platoon.envs.harbor.sources.places import check_places, make_directory, mark_cache
from platoon.envs.harbor.sources.protocol import Dataset, FetchTools, Recorded
from platoon.envs.harbor.take import TakenTasks, take_tasks
from platoon.errors import ConfigError, NotPreparedError, Problem
from platoon.host.locks import file_lock

LOCK_TIMEOUT_S = 24 * 3600.0
UPDATE_ADVICE = "run platoon harbor fetch CONFIG --update"
# What a place that holds no files answers; a full disk is no fault of who named it.
NO_PLACE = frozenset(
    {errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EPERM, errno.EROFS, errno.EOPNOTSUPP}
)


@dataclass(frozen=True)
class Fetched:
    """path: the lock by name. copied: how many tasks were not in the cache yet. warnings: text to count and first task.

    changes: against the lock before, None where that is not known or nothing changed.
    """

    lock: HarborLock
    path: Path
    copied: int = 0
    warnings: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    changes: Changes | None = None


def fetch(
    options: HarborOptions,
    base: Path,
    cache: HarborCache,
    *,
    update: bool = False,
    tools: FetchTools | None = None,
    recorded: Recorded | None = None,
) -> Fetched:
    """The lock of an entry whose paths are relative to `base`, fetched where none that answers is current.

    update: resolves what moves. tools.repair: fetches although current. recorded: what the source was when it was locked before;
    that is fetched then, and the entry's own lock, which may be newer, stays. Raises ConfigError with every problem found,
    NotPreparedError for what moves and was never resolved, PlatoonError.
    """
    tools = tools or FetchTools(cache)
    check_places(cache)
    request = read_request(options, base, cache)
    search = _search(request, cache)
    if (done := _done(request, search, tools, update, recorded)) is not None:
        return done
    resolution = _resolution(request, search, tools, update, recorded)
    reference = request.source.reference
    with file_lock(
        cache.fetch_lock(request.lock_key),
        timeout_s=LOCK_TIMEOUT_S,
        what=f"fetching {reference}",
        waiting=lambda: tools.progress(f"{reference}: waiting for another fetch of it"),
    ):
        # Another fetch of the same may have done it while this one waited.
        search = _search(request, cache)
        if (done := _done(request, search, tools, update, recorded)) is not None:
            return done
        sweep_staging(cache)
        mark_cache(cache)
        with request.source.resolve(tools, resolution) as dataset:
            if not tools.repair and (done := _unmoved(request, search, dataset, cache)) is not None:
                return done
            return _fetch(request, search, dataset, tools, keeps_name=recorded is not None)


def make_lock(
    request: Request, dataset: Dataset, tools: FetchTools, older: tuple[HarborLock, ...] = ()
) -> tuple[HarborLock, TakenTasks]:
    """The lock of a resolved dataset, its tasks in the cache; nothing is written but those. Raises ConfigError, PlatoonError."""
    options, source = request.options, request.source
    listed = selection.add_index_files(dataset.list_tasks(), options, dataset, source.reference, tools.say)
    chosen = selection.select(listed, options, request.lists, source.reference)
    overlay = overlays_digest(request.overlays) if request.overlays else None
    reuse = Reuse(tools.cache, not tools.repair, rows_of(older, dataset.resolved, overlay))
    taken = take_tasks(request, dataset, chosen, reuse, tools)
    _tell_idle_metadata(request, taken, tools)
    _tell_idle_overlays(request, taken, tools)
    lock = HarborLock(
        dataset=source.reference,
        resolved=dataset.resolved or tree_digest(taken.rows),
        source=dataset.source,
        fetched_with=source.fetched_with,
        inputs=request.inputs,
        selection={
            "tasks": {item.path: item.digest for item in request.lists},
            "select": dict(options.select),
            "selected": len(chosen),
            "of": len(listed),
        },
        tasks=taken.rows,
        plans=taken.plans,
        overlay=overlay,
    )
    return lock, taken


def _tell_idle_metadata(request: Request, taken: TakenTasks, tools: FetchTools) -> None:
    """Warns of names of `[metadata]` that no task has."""
    known = {name for row in taken.rows for name in row.index}
    if missing := [name for name in request.options.metadata_fields if name not in known]:
        tools.say(f"warning: {request.source.reference}: index metadata: no task has the field {few(missing)}")


def _tell_idle_overlays(request: Request, taken: TakenTasks, tools: FetchTools) -> None:
    """Warns of overlays that no task matches: a field that is misspelt matches none."""
    known = {name for row in taken.rows for name in row.index} | {"name"}
    used = {name for row in taken.rows for name in row.overlays}
    for overlay in request.overlays:
        if overlay.name not in used:
            unknown = [printable(f"match.{name}") for name in overlay.match if name not in known]
            advice = "; a field of [metadata] has to be listed: index: [{metadata: [...]}]"
            why = f" (no task has {', '.join(unknown)}{advice})" if unknown else ""
            tools.say(f"warning: {request.source.reference}: no task matches the overlay {printable(overlay.name)}{why}")


def recorded_of(lock: HarborLock) -> Recorded:
    """What a lock recorded of its source's resolution."""
    return Recorded(lock.resolved, lock.source)


def _search(request: Request, cache: HarborCache) -> Search:
    # What is read again at each fetch is answered by no lock.
    return Search(None) if request.source.is_local else find_answer(request, cache)


def _done(request: Request, search: Search, tools: FetchTools, update: bool, recorded: Recorded | None) -> Fetched | None:
    """The lock that leaves nothing to do, if it is there."""
    answer = search.answer
    if answer is not None and recorded is not None and answer.lock.resolved != recorded.resolved:
        return None
    if answer is None or tools.repair or (update and not request.source.pinned):
        return None
    return _published(answer, request, tools.cache) if is_current(answer.lock, tools.cache) else None


def _unmoved(request: Request, search: Search, dataset: Dataset, cache: HarborCache) -> Fetched | None:
    """The current lock of a source that moves, when it has not moved."""
    answer = search.answer
    if answer is None or answer.lock.resolved != dataset.resolved or answer.lock.is_legacy:
        return None
    same = answer.lock.source == dataset.source
    return _published(answer, request, cache) if same and is_current(answer.lock, cache) else None


def _resolution(request: Request, search: Search, tools: FetchTools, update: bool, recorded: Recorded | None) -> Recorded | None:
    """What a moving source is taken to be. Raises NotPreparedError where nothing says so and nobody asked what it is now."""
    if request.source.pinned or update:
        return None
    if recorded is not None:
        return recorded
    if search.answer is not None:
        return recorded_of(search.answer.lock)
    if search.earlier is not None:
        tools.say(f"{request.source.reference}: stays at {search.earlier.resolved}, as it was locked before (--update moves it)")
        return recorded_of(search.earlier)
    rule = "what it names may move, and no lock says what it was"
    if search.passed_over:
        rule += f" ({'; '.join(search.passed_over)})"
    raise NotPreparedError(Problem(rule, file=request.source.reference, advice=UPDATE_ADVICE))


def _fetch(request: Request, search: Search, dataset: Dataset, tools: FetchTools, *, keeps_name: bool) -> Fetched:
    started = time.time()
    for text in search.passed_over:
        tools.say(f"not used: {text}")
    older = () if request.source.is_local else _older_locks(request)
    lock, taken = make_lock(request, dataset, tools, older)
    changed = None if keeps_name else _changes(request, search, lock, tools)
    make_durable(tools.cache)
    answer = Answer(lock, request.path)
    if keeps_name and (request.path.exists() or request.options.lock is not None):
        return replace(_published(answer, request, tools.cache), copied=taken.copied, warnings=taken.warnings)
    meta = {
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(time.time() - started, 3),
        "copied": taken.copied,
    }
    _write(lock, meta, request)
    if not keeps_name:
        make_directory(request.latest_path.parent)
        publish_bytes(request.latest_path, lock.digest.encode(), WRITABLE)
    done = _published(answer, request, tools.cache)
    return replace(done, copied=taken.copied, warnings=taken.warnings, changes=changed)


def _write(lock: HarborLock, meta: Mapping[str, Any], request: Request) -> None:
    """Publishes a lock and what stands beside it. Raises ConfigError for an entry's own place that takes no file."""
    try:
        make_directory(request.path.parent)
        lock.write(request.path)
        publish_json(meta_path(request.path), meta, WRITABLE)
    except OSError as error:
        if request.options.lock is None or error.errno not in NO_PLACE:
            raise
        rule = f"cannot be written: {short_path(request.options.lock)}: {error.strerror}"
        raise ConfigError(Problem(rule, key="lock", advice="name a place that takes files, or leave lock out")) from None


def _published(answer: Answer, request: Request, cache: HarborCache) -> Fetched:
    """The lock lies by its digest too, from where runs read it."""
    by_digest = cache.lock_by_digest(answer.lock.digest)
    if not by_digest.is_file():
        make_directory(by_digest.parent)
        answer.lock.write(by_digest)
    return Fetched(answer.lock, answer.path)


def _older_locks(request: Request) -> tuple[HarborLock, ...]:
    """Locks whose cached tasks may be the ones that are wanted, whatever question they answered."""
    found = []
    for path in dict.fromkeys((request.path, request.legacy_path)):
        try:
            found.append(HarborLock.read(path))
        except ConfigError:
            continue
    return tuple(found)


def _changes(request: Request, search: Search, after: HarborLock, tools: FetchTools) -> Changes | None:
    """What changed since the lock before, which is told: what moves has moved, or the same commit gave other tasks, as an adapter
    that downloads may."""
    if search.answer is None:
        # Another question is answered with other tasks.
        if search.earlier is not None and search.earlier.resolved != after.resolved:
            tools.say(f"{request.source.reference}: moved from {search.earlier.resolved} to {after.resolved}")
        return None
    found = changes(search.answer.lock, after)
    if found.since != after.resolved:
        tools.say(f"{request.source.reference}: moved from {found.since} to {after.resolved}: {found}")
    elif found.any:
        tools.say(f"{request.source.reference}: gave other tasks than before: {found}")
    else:
        return None
    return found
