"""From inputs to environment entries that can be played: each with its service and its tasks of a split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from platoon.config.files import named_path
from platoon.config.text import quoted
from platoon.core.protocols import ChecksTasks, EnvironmentService
from platoon.envs import get_service
from platoon.envs.harbor.service import HarborService
from platoon.episodes.checks import route_problems
from platoon.errors import ConfigError, Problem
from platoon.pipeline.inputs import EntryInputs, RunInputs
from platoon.pipeline.layout import IMAGE_MAP
from platoon.pipeline.sources import is_spec
from platoon.train.components.entries import EntryTasks
from platoon.train.components.player import route_of
from platoon.train.config_defs.entries import EnvironmentConfig


async def entry_tasks(inputs: RunInputs, environments: Sequence[EnvironmentConfig], split: str, base: Path) -> list[EntryTasks]:
    """The entries in the order of the configuration. base: what its relative paths are relative to.

    Reads the image map now, so that the folder of inputs may go afterwards. Raises ConfigError for a harness that could play
    nothing, for a service or a split that is none, and for a split without a task.
    """
    placed = [based(entry, base) for entry in environments]
    if found := [problem for number, entry in enumerate(placed) for problem in harness_problems(number, entry, split == "train")]:
        raise ConfigError(found)
    return [await _entry(inputs, number, entry, split, base) for number, entry in enumerate(placed)]


async def check_tasks(entries: Sequence[EntryTasks], split: str) -> None:
    """Raises ConfigError with the tasks of every entry that its service would refuse to open."""
    problems: list[Problem] = []
    for entry in entries:
        if isinstance(entry.service, ChecksTasks):
            try:
                await entry.service.check_tasks(split, entry.tasks)
            except ConfigError as error:
                problems += error.problems
    if problems:
        raise ConfigError(problems)


def task_digests(entries: Sequence[EntryTasks]) -> dict[str, list[tuple[str, str]]]:
    """Of each Harbor entry the ids it plays, in their order, each with the digest of what the task is."""
    return {
        entry.label: [(task, entry.service.task_digest(task)) for task in entry.tasks]
        for entry in entries
        if isinstance(entry.service, HarborService)
    }


def unplayed(inputs: RunInputs, entries: Sequence[EntryTasks], split: str) -> dict[str, tuple[str, str]]:
    """The tasks that are there and not played: by their ids, each alone and as `<entry>::<id>`, why not and what to do."""
    found: dict[str, tuple[str, str]] = {}
    for number, entry in enumerate(entries):
        locked = inputs.entries.get(entry.label)
        whys: dict[str, tuple[str, str]] = {}
        if locked is not None and locked.lock is not None and locked.splits is not None:
            whys |= {row.name: (f"is refused: {row.refused}", "") for row in locked.lock.tasks if row.refused is not None}
            for name, ids in (locked.splits.named or {}).items():
                if name != split:
                    whys |= dict.fromkeys(ids, (f"is of the split {name}", f"--split {name} plays it"))
        whys |= dict.fromkeys(entry.config.exclude_tasks, ("is excluded", f"environments.{number}.exclude_tasks names it"))
        for task, why in whys.items():
            found.setdefault(task, why)
            found[f"{entry.label}::{task}"] = why
    return found


def harness_problems(number: int, entry: EnvironmentConfig, training: bool) -> Iterator[Problem]:
    """Why no rollout of an entry could run: its harness, the options of it, its program. training: else with `eval_overrides`."""
    if entry.service is None or entry.harness is None:
        return
    for problem in route_problems(route_of(entry, training=training)):
        # A spec's own fault is told with its place in the spec.
        rule = f"{problem.file}: {problem.key}: {problem.rule}" if problem.file else problem.rule
        key = "harness" if problem.file else problem.key
        yield Problem(rule, key=f"environments.{number}.{key}", advice=problem.advice)


def based(entry: EnvironmentConfig, base: Path) -> EnvironmentConfig:
    """The entry with the spec of its harness found from anywhere."""
    if not is_spec(entry.harness):
        return entry
    return entry.model_copy(update={"harness": str(named_path(entry.harness, base).absolute())})


async def _entry(inputs: RunInputs, number: int, entry: EnvironmentConfig, split: str, base: Path) -> EntryTasks:
    assert entry.service is not None
    locked = inputs.entries.get(entry.label)
    if locked is None:
        service = get_service(entry.service, **entry.service_kwargs)
        tasks = tuple(await service.list_tasks(split))
    else:
        service = _harbor(inputs, locked, entry.service, base)
        tasks = locked.splits.ids(split) if locked.splits is not None else tuple(await service.list_tasks(split))
    excluded = set(entry.exclude_tasks)
    kept = tuple(task for task in tasks if task not in excluded)
    if not kept:
        raise ConfigError(_no_task(number, split, locked, excludes=bool(tasks)))
    return EntryTasks(entry, service, kept)


def _no_task(number: int, split: str, locked: EntryInputs | None, *, excludes: bool) -> Problem:
    """Why an entry has no task of a split. excludes: it excludes all that there are."""
    rule, key = f"split {quoted(split)} lists no task", f"environments.{number}"
    if excludes:
        return Problem(f"{rule} but those that are excluded", key=f"{key}.exclude_tasks", advice="exclude fewer")
    empty = locked.splits.empty if locked is not None and locked.splits is not None else None
    if empty is None:
        return Problem(rule, key=key, advice="add tasks to its dataset")
    return Problem(f"{rule}: {empty.rule}", key=f"{key}.service_kwargs.{empty.key}", advice=empty.advice)


def _harbor(inputs: RunInputs, locked: EntryInputs, service: str, base: Path) -> EnvironmentService:
    images = inputs.directory / IMAGE_MAP
    if locked.lock is None:
        return get_service(service, options=locked.options, base_dir=base, image_map_file=images)
    return get_service(
        service,
        # A manifest of splits was read when the dataset was locked; the service need not find it again.
        options=locked.options.model_copy(update={"splits": None}),
        lock_file=locked.cache.lock_by_digest(locked.lock.digest),
        cache_dir=locked.cache.root,
        base_dir=base,
        image_map_file=images,
    )
