"""The Harbor datasets that entries name: fetched, or read from the lock that is given, and told of to a person."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from platoon.config.files import named_path
from platoon.config.text import counted, few, printable
from platoon.envs.harbor.fetch import Fetched, fetch
from platoon.envs.harbor.format import TaskRefused, read_toml
from platoon.envs.harbor.lock import HarborLock
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import ROOM_ADVICE, HarborCache, no_room
from platoon.envs.harbor.selection import unknown_tasks
from platoon.envs.harbor.sources.git_command import GitError
from platoon.envs.harbor.sources.protocol import WORKERS, FetchTools, Recorded
from platoon.envs.harbor.specs import unserved
from platoon.envs.harbor.splits import Splits
from platoon.errors import ConfigError, NotPreparedError, PlatoonError, Problem
from platoon.host.console import Console
from platoon.host.status_line import PATIENCE_S
from platoon.site import Site
from platoon.train.run_directory.place import refuse_unwritable


def fetch_tools(site: Site, console: Console, *, workers: int = WORKERS, repair: bool = False) -> FetchTools:
    """What a fetch works with, telling the console what it does."""

    def progress(text: str) -> None:
        console.progress("fetch", text, patience_s=PATIENCE_S)

    return FetchTools(HarborCache(site.harbor_cache), workers=workers, repair=repair, say=console.say, progress=progress)


def locked_dataset(
    options: HarborOptions, base: Path, tools: FetchTools, *, update: bool = False, recorded: Recorded | None = None
) -> Fetched:
    """The lock of what an entry serves. recorded: what its source was when it was locked elsewhere.

    Raises ConfigError, NotPreparedError for what moves and was never resolved, and for a given lock whose tasks the cache lacks.
    """
    if options.is_fetched:
        with cache_writes(tools.cache.root):
            return fetch(options, base, tools.cache, update=update, tools=tools, recorded=recorded)
    assert options.lock is not None
    path = named_path(options.lock, base)
    lock = HarborLock.read(path)
    if missing := [row.name for row in lock.tasks if not tools.cache.has_task(row.digest)]:
        rule = f"{len(missing)} of its {counted(len(lock.tasks), 'task')} are not {tools.cache.told}, {printable(missing[0])} first"
        advice = f"fetch {printable(lock.dataset)} with this site, or name the site it was fetched with"
        raise NotPreparedError(Problem(rule, key="lock", file=options.lock, advice=advice))
    with cache_writes(tools.cache.root):
        lock.write(tools.cache.lock_by_digest(lock.digest))
    return Fetched(lock, path)


@contextmanager
def cache_writes(cache: Path) -> Iterator[None]:
    """Raises ConfigError where the block failed because this process may not write into the cache, PlatoonError where there is no
    room. One that is whole may be closed.

    cache: the directory, or a part of it.
    """
    try:
        yield
    except GitError as error:
        if error.is_full:
            raise PlatoonError(f"{error} ({ROOM_ADVICE})") from error
        raise
    except OSError as error:
        failed = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else cache
        if failed.is_relative_to(cache) or cache.is_relative_to(failed):
            if (full := no_room(error, cache)) is not None:
                raise full from error
            refuse_unwritable(failed.parent if failed.parent.is_relative_to(cache) else cache, "cache")
        raise


def of_entry(problems: Iterable[Problem], number: int, file: str) -> Iterator[Problem]:
    """The problems of an entry, those of its options by their whole keys in the configuration `file`."""
    entry = f"environments.{number}."
    for problem in problems:
        whole = problem.file or problem.key.startswith(entry)
        key = problem.key if whole else f"{entry}service_kwargs.{problem.key}".rstrip(".")
        yield replace(problem, key=key, file=problem.file or file)


def exclusion_problems(lock: HarborLock, entry: Mapping[str, Any], number: int) -> Iterator[Problem]:
    """Problems of `exclude_tasks` of an entry: ids that no task has, and that it leaves no task."""
    excluded, key = frozenset(entry.get("exclude_tasks", ())), f"environments.{number}.exclude_tasks"
    # A lock has the tasks that are selected: what others the dataset has it cannot tell.
    selecting = " and ".join(option for option in ("tasks", "select") if entry.get("service_kwargs", {}).get(option))
    among = f" among those of {selecting}" if selecting else ""
    for problem in unknown_tasks(excluded, lock.by_name.keys(), key, lock.dataset):
        yield replace(problem, rule=f"{problem.rule}{among}")
    if lock.runnable and excluded.issuperset(lock.runnable):
        rule = f"leaves none of the {counted(len(lock.runnable), 'task')} that can run"
        yield Problem(rule, key=key, file=lock.dataset, advice="exclude fewer")


def say_warnings(say: Callable[[str], None], label: str, warnings: Mapping[str, tuple[int, str]]) -> None:
    """One line for each kind of thing that is odd about the tasks of an entry. warnings: text to how many tasks, and the first."""
    for text, (count, example) in sorted(warnings.items()):
        tasks = f"task {printable(example)}" if count == 1 else f"{count} tasks, such as {printable(example)}"
        say(f"warning: {label}: {text} ({tasks})")


def say_odd_splits(say: Callable[[str], None], label: str, splits: Splits) -> None:
    """Warns of a hold-out, or of exclusions, that leave a side without a task, and of tasks both trained on and held out."""
    for split, names in splits.leaks.items():
        say(f"warning: {label}: split {printable(split)} has {counted(len(names), 'task')} that train has too: {few(names)}")
    if splits.empty is not None:
        bare = " and ".join(name for name, ids in (splits.named or {}).items() if not ids)
        advice = f" ({splits.empty.advice})" if splits.empty.advice else ""
        say(f"warning: {label}: no task is left to {bare}: {splits.empty.rule}{advice}")


def say_unserved(say: Callable[[str], None], label: str, lock: HarborLock, cache: HarborCache, excluded: Container[str]) -> None:
    """Warns of tasks that are runnable as far as a lock goes, and that no session opens: a run with one of them stops."""
    found: dict[str, list[str]] = {}
    for row in lock.tasks:
        if row.runnable and row.name not in excluded:
            # What the cache has of it may be damaged: who plays it tells.
            with suppress(TaskRefused):
                for why in unserved(read_toml(cache.task(row.digest)), row):
                    found.setdefault(why, []).append(row.name)
    for why, names in found.items():
        say(f"warning: {label}: a run with {few(names)} stops: {why}")


def recorded_datasets(datasets: Mapping[str, Any], site: Site) -> dict[str, Recorded]:
    """What the entries of a `datasets.lock.json` resolved to, by environment; more of it where the cache has their locks."""
    return {
        entry["environment"]: Recorded(entry["resolved"]) if lock is None else Recorded(lock.resolved, lock.source)
        for entry, lock in entry_locks(datasets, HarborCache(site.harbor_cache))
    }


def entry_locks(datasets: Mapping[str, Any], cache: HarborCache) -> Iterator[tuple[Mapping[str, Any], HarborLock | None]]:
    """Each locked entry of a `datasets.lock.json` with its lock, None where the cache does not have that."""
    for entry in datasets["harbor"]:
        if "lock_digest" in entry:
            try:
                lock = HarborLock.read(cache.lock_by_digest(entry["lock_digest"]))
            except ConfigError:
                yield entry, None
            else:
                yield entry, lock
