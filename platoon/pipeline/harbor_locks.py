"""Looks at the locks of a configuration's datasets without changing them: do they still hold, and does the cache hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from platoon.artifacts.reading import read_regular
from platoon.config.text import printable
from platoon.envs.harbor.answers import Answer, find_answer, read_request
from platoon.envs.harbor.differences import LockDifference, first_difference
from platoon.envs.harbor.fetch import make_lock, recorded_of
from platoon.envs.harbor.format import TaskRefused, read_toml
from platoon.envs.harbor.lock import HarborLock, LockRow
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache, cache_problems
from platoon.envs.harbor.selection import unknown_tasks
from platoon.envs.harbor.sources.protocol import FetchTools
from platoon.envs.harbor.task_toml import unread
from platoon.errors import ConfigError, NotPreparedError, Problem
from platoon.pipeline.datasets import exclusion_problems, say_warnings
from platoon.pipeline.fetch import fetched_entries, harbor_options
from platoon.site import Site

FETCH_ADVICE = "run platoon harbor fetch CONFIG"


@dataclass(frozen=True)
class CheckedLock:
    """difference: the first one, None when the lock made again has the same bytes."""

    environment: str
    path: Path
    lock: HarborLock
    difference: LockDifference | None


@dataclass(frozen=True)
class VerifiedCache:
    """count: tasks that were read. warnings: of each lock what is odd about its tasks, as `say_warnings` takes it."""

    count: int
    faults: Sequence[CacheFault]
    warnings: Mapping[str, Mapping[str, tuple[int, str]]]


@dataclass(frozen=True)
class CacheFault:
    """A task of a lock that the cache does not hold as it should. lock: environment, or the path that was named."""

    lock: str
    task: str
    fault: str

    def __str__(self) -> str:
        return f"{self.lock}: task {printable(self.task)}: {self.fault}"


def is_lock(path: Path) -> bool:
    """Whether a file that may be a configuration or a lock is a lock."""
    return path.name.endswith(".lock.json")


def locks_of(path: Path, site: Site, overrides: tuple[str, ...] = ()) -> list[tuple[str, HarborLock, frozenset[str]]]:
    """The locks that answer a configuration's entries, by environment and with the tasks it excludes; or the lock at `path`.

    Raises ConfigError, NotPreparedError for an entry without a lock.
    """
    if is_lock(path):
        return [(str(path), HarborLock.read(path), frozenset())]
    own = HarborCache(site.harbor_cache)
    found: list[tuple[str, HarborLock, frozenset[str]]] = []
    problems: list[Problem] = []
    for number, label, entry, options in fetched_entries(path, site, overrides):
        lock = _answer(options, path.parent, own, label).lock
        problems += exclusion_problems(lock, entry, number)
        found.append((label, lock, frozenset(entry.get("exclude_tasks", ()))))
    if problems:
        raise ConfigError(problems)
    return found


def check_locks(config: Path, site: Site, tools: FetchTools, overrides: tuple[str, ...] = ()) -> Iterator[CheckedLock]:
    """Makes each entry's lock again from its source as it was resolved, up to the first that differs.

    Nothing is written but tasks that the cache lacks. Raises ConfigError, NotPreparedError for an entry without a lock.
    """
    for _, label, options in harbor_options(config, site, overrides):
        tools.progress(label)
        request = read_request(options, config.parent, tools.cache)
        answer = _answer(options, config.parent, tools.cache, label)
        with request.source.resolve(tools, recorded_of(answer.lock)) as dataset:
            made, taken = make_lock(request, dataset, tools)
        say_warnings(tools.say, label, taken.warnings)
        difference = first_difference(read_regular(answer.path), made)
        yield CheckedLock(label, answer.path, answer.lock, difference)
        if difference is not None:
            return


def verify_cache(
    path: Path, site: Site, overrides: tuple[str, ...] = (), *, cache: Path | None = None, tasks: Sequence[str] = ()
) -> VerifiedCache:
    """Which cached tasks are missing or not what the lock says, and what is odd about the others.

    path: a configuration, or a lock, whose tasks may lie in another Harbor `cache`. tasks: look at these alone. Raises ConfigError.
    """
    if cache is not None and not is_lock(path):
        raise ConfigError(Problem("is for a lock; a configuration has its site's", key="--cache"))
    locks = [(label, lock) for label, lock, _ in locks_of(path, site, overrides)]
    known = {name for _, lock in locks for name in lock.by_name}
    if unknown := list(unknown_tasks(tasks, known, "--task", str(path))):
        raise ConfigError(unknown)
    count = 0
    faults: list[CacheFault] = []
    warnings: dict[str, Mapping[str, tuple[int, str]]] = {}
    place = HarborCache(cache or site.harbor_cache)
    for label, lock in locks:
        rows = [row for row in lock.tasks if not tasks or row.name in tasks]
        count += len(rows)
        found = list(zip(rows, cache_problems((row.digest for row in rows), place), strict=True))
        faults += [CacheFault(label, row.name, fault) for row, fault in found if fault is not None]
        warnings[label] = _unread([row for row, fault in found if fault is None], place)
    return VerifiedCache(count, faults, warnings)


def _unread(rows: Iterable[LockRow], cache: HarborCache) -> dict[str, tuple[int, str]]:
    """Keys of `task.toml` that nothing reads: how many tasks have each, and the first. A refused task is told as that."""
    found: dict[str, tuple[int, str]] = {}
    for row in rows:
        with suppress(TaskRefused):
            for text in unread(read_toml(cache.task(row.digest))):
                count, example = found.get(text, (0, row.name))
                found[text] = (count + 1, example)
    return found


def _answer(options: HarborOptions, base: Path, cache: HarborCache, label: str) -> Answer:
    search = find_answer(read_request(options, base, cache), cache)
    if search.answer is None:
        rule = f"environment {label} has no lock {cache.told}"
        if search.earlier is not None:
            rule = f"environment {label} asks its dataset for something else than what was locked"
        if search.passed_over:
            rule += f" ({'; '.join(search.passed_over)})"
        raise NotPreparedError(Problem(rule, advice=FETCH_ADVICE))
    return search.answer
