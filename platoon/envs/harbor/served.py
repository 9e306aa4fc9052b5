"""Which tasks a Harbor entry serves: a lock's rows with their cached directories, or task directories as they are."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from platoon.config.files import named_path
from platoon.envs.harbor.answers import find_answer, read_request
from platoon.envs.harbor.content import HASH_ERRORS, fault_text, read_contents
from platoon.envs.harbor.format import HarborTask, read_task
from platoon.envs.harbor.lock import HarborLock, LockRow, tree_digest
from platoon.envs.harbor.options import HarborOptions, Refuse
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.rows import BuiltRow, TaskSettings, build_row, finish_rows
from platoon.envs.harbor.sources.directory import DirectorySource
from platoon.envs.harbor.sources.protocol import SourceTask
from platoon.envs.harbor.specs import row_refusals
from platoon.envs.harbor.splits import Splits, split_lock
from platoon.envs.harbor.verified import check_once
from platoon.errors import ConfigError, NotPreparedError, Problem

logger = logging.getLogger(__name__)

ADVICE = "run platoon prepare, which fetches the dataset"


@dataclass
class ServedTasks:
    """lock: as fetched, or made of the directories. directories: task id to its directory, None to look in the cache."""

    lock: HarborLock
    splits: Splits
    cache: HarborCache | None = None
    directories: Mapping[str, Path] | None = None
    _read: dict[str, HarborTask] = field(default_factory=dict)

    def row(self, task_id: str) -> LockRow:
        """Raises ConfigError for an id that is not served."""
        row = self.lock.by_name.get(task_id)
        if row is None:
            raise ConfigError(Problem(f"no task is called {task_id!r}", file=self.lock.dataset))
        return row

    def task(self, task_id: str) -> HarborTask:
        """The task as its files say, read once. Raises PlatoonError, TaskRefused among them."""
        if task_id not in self._read:
            self._read[task_id] = read_task(self.checked(task_id))
        return self._read[task_id]

    def glance(self, task_id: str) -> HarborTask:
        """As `task`, but whoever plays it hashes its files: for a look at all tasks before a run begins."""
        return self._read.get(task_id) or read_task(self._directory(task_id))

    def checked(self, task_id: str) -> Path:
        """Where a task's files lie, which are those of its digest if it was locked. May hash them. Raises PlatoonError."""
        directory = self._directory(task_id)
        return directory if self.cache is None else check_once(self.row(task_id).digest, self.cache)

    def _directory(self, task_id: str) -> Path:
        row = self.row(task_id)
        if self.directories is not None:
            return self.directories[task_id]
        assert self.cache is not None
        return self.cache.task(row.digest)


def serve_lock(lock_file: Path, cache_dir: Path, options: HarborOptions, base: Path) -> ServedTasks:
    """The tasks of a lock; cache_dir is the Harbor part of the cache. Raises ConfigError."""
    if not lock_file.is_file():
        raise ConfigError(Problem("no such lock", file=str(lock_file), advice=ADVICE))
    lock = HarborLock.read(lock_file)
    return ServedTasks(lock, split_lock(lock, options, base), cache=HarborCache(cache_dir))


def serve_request(options: HarborOptions, base: Path, cache_dir: Path) -> ServedTasks:
    """The tasks of the lock that answers an entry. Raises NotPreparedError, naming locks that are there and do not answer it."""
    cache = HarborCache(cache_dir)
    if not options.is_fetched:
        assert options.lock is not None
        return serve_lock(named_path(options.lock, base), cache_dir, options, base)
    request = read_request(options, base, cache)
    search = find_answer(request, cache)
    if search.answer is None:
        rule = f"no lock {cache.told} answers what the environment asks for"
        if search.passed_over:
            rule += f" ({'; '.join(search.passed_over)})"
        raise NotPreparedError(Problem(rule, file=request.source.reference, advice=ADVICE))
    return serve_lock(search.answer.path, cache_dir, options, base)


def serve_directories(options: HarborOptions, base: Path) -> ServedTasks:
    """Task directories as they are: what cannot run is left out with a warning. Raises ConfigError when nothing is left."""
    found: dict[str, Path] = {}
    for reference in options.task_dirs or [str(options.dataset_dir)]:
        dataset = DirectorySource(reference, named_path(reference, base)).dataset
        for task in dataset.list_tasks():
            if task.id in found:
                raise ConfigError(Problem(f"two tasks are called {task.id}", file=reference))
            found[task.id] = dataset.directory(task)
    shown = options.dataset_dir or "task_dirs"
    # No fetch decided what to refuse here: the policies do, and a session's own checks.
    settings = TaskSettings(Refuse(agent_user=options.agent_user == "refuse", gpus=False))
    rows = [row for name, path in sorted(found.items()) if (row := _row(name, path, settings)) is not None]
    rows = finish_rows(rows, settings.refuse)
    if not rows:
        raise ConfigError(Problem("holds no task that can run", file=shown, advice="the warnings above say why"))
    lock = HarborLock(shown, tree_digest(rows), {"kind": "directory"}, "platoon (as it is)", "", {}, tuple(rows))
    return ServedTasks(lock, split_lock(lock, options, base), directories=found)


def _row(name: str, directory: Path, settings: TaskSettings) -> LockRow | None:
    try:
        built = build_row(SourceTask(name, name), directory, read_contents(directory), {}, settings)
    except HASH_ERRORS as error:
        logger.warning("task %s is left out: %s", name, fault_text(error, directory))
        return None
    row = built.row
    why = [row.refused] if row.refused is not None else [*_never_served(built), *row_refusals(row)]
    if why:
        logger.warning("task %s is left out: %s", name, why[0])
        return None
    return row


def _never_served(built: BuiltRow) -> Iterator[str]:
    """What only a fetched dataset can have: images that were built for it."""
    advice = "serve the directory as a dataset to fetch, whose image map can hold that image"
    if built.row.image_key is not None:
        yield f"its image is built from a Dockerfile ({advice})"
    services = built.plan["services"] if built.plan is not None else {}
    for name, service in sorted(services.items()):
        if "build" in (service.get("image") or {}):
            yield f"its service {name} is built from a context ({advice})"
