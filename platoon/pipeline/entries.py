"""From inputs to environment entries that can be played: each with its service and its tasks of a split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from platoon.core.protocols import EnvironmentService
from platoon.envs import get_service
from platoon.errors import ConfigError, Problem
from platoon.pipeline.inputs import EntryInputs, RunInputs
from platoon.pipeline.layout import IMAGE_MAP
from platoon.train.components.entries import EntryTasks
from platoon.train.config_defs.entries import EnvironmentConfig


async def entry_tasks(inputs: RunInputs, environments: Sequence[EnvironmentConfig], split: str, base: Path) -> list[EntryTasks]:
    """The entries in the order of the configuration. base: what its relative paths are relative to.

    Reads the image map now, so that the folder of inputs may go afterwards. Raises ConfigError for a service that is none, for a
    split that is none, and for one without a task.
    """
    return [await _entry(inputs, number, entry, split, base) for number, entry in enumerate(environments)]


def other_splits(inputs: RunInputs, split: str) -> dict[str, set[str]]:
    """What the splits of locked datasets list beside `split`: ids, each alone and as `<entry>::<id>`."""
    found: dict[str, set[str]] = {}
    for label, entry in inputs.entries.items():
        for name in (entry.splits.named or {}) if entry.splits is not None else {}:
            if name != split:
                ids = entry.task_ids(name)
                found.setdefault(name, set()).update(ids, (f"{label}::{task}" for task in ids))
    return found


async def _entry(inputs: RunInputs, number: int, entry: EnvironmentConfig, split: str, base: Path) -> EntryTasks:
    assert entry.service is not None
    locked = inputs.entries.get(entry.label)
    if locked is None:
        service = get_service(entry.service, **entry.service_kwargs)
        tasks = tuple(await service.list_tasks(split))
    else:
        service = _harbor(inputs, locked, entry.service, base)
        tasks = locked.task_ids(split) if locked.splits is not None else tuple(await service.list_tasks(split))
    excluded = set(entry.exclude_tasks)
    tasks = tuple(task for task in tasks if task not in excluded)
    if not tasks:
        raise ConfigError(
            Problem(f"split {split!r} lists no task", key=f"environments.{number}", advice="add tasks to its dataset")
        )
    return EntryTasks(entry, service, tasks)


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
