"""From the inputs of a run to the environment services it plays, entry by entry."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from platoon.core.protocols import EnvironmentService
from platoon.envs import get_service
from platoon.pipeline.inputs import EntryInputs, RunInputs
from platoon.pipeline.layout import IMAGE_MAP
from platoon.site import Site
from platoon.train.components.entries import EntryTasks
from platoon.train.config_defs.entries import EnvironmentConfig


def entry_tasks(
    inputs: RunInputs, entries: Sequence[EnvironmentConfig], split: str, site: Site, base: Path
) -> tuple[EntryTasks, ...]:
    """Each entry with its service and the tasks of a split, without what it excludes. base: what relative paths are relative to.

    Raises ConfigError for an unknown split or service; no sandbox is touched.
    """
    return tuple(_entry(inputs, entry, split, site, base) for entry in entries)


def _entry(inputs: RunInputs, entry: EnvironmentConfig, split: str, site: Site, base: Path) -> EntryTasks:
    assert entry.service is not None
    found = inputs.entries.get(entry.label)
    if found is None:
        service = get_service(entry.service, **entry.service_kwargs)
        return EntryTasks(entry, service, _listed(service, split, entry.exclude_tasks))
    service = _harbor(inputs, found, site, base)
    tasks = found.task_ids(split) if found.lock is not None else _listed(service, split, entry.exclude_tasks)
    return EntryTasks(entry, service, tasks)


def _harbor(inputs: RunInputs, found: EntryInputs, site: Site, base: Path) -> EnvironmentService:
    if found.lock is None:
        return get_service("harbor", options=found.options, base_dir=base)
    return get_service(
        "harbor",
        options=found.options,
        lock_file=found.cache.lock_by_digest(found.lock.digest),
        cache_dir=site.cache,
        image_map_file=inputs.directory / IMAGE_MAP,
        base_dir=base,
    )


def _listed(service: EnvironmentService, split: str, excluded: Sequence[str]) -> tuple[str, ...]:
    names = asyncio.run(_list(service, split))
    return tuple(name for name in names if name not in excluded)


async def _list(service: EnvironmentService, split: str) -> Sequence[str]:
    return await service.list_tasks(split)
