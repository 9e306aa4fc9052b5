"""Fetches the Harbor datasets of a configuration by hand: what `platoon harbor fetch` does and prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platoon.config.text import printable
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.sources.protocol import WORKERS
from platoon.envs.harbor.splits import split_lock
from platoon.errors import ConfigError, Problem
from platoon.host.console import Console
from platoon.pipeline.datasets import fetch_tools, locked_dataset, say_warnings
from platoon.pipeline.lock import entry_summary
from platoon.pipeline.resolve import resolve
from platoon.site import Site


@dataclass(frozen=True)
class FetchedEntry:
    """One line of a fetch. lock: path of the lock by name. fetched: tasks that were copied. refusals: code to count and example."""

    environment: str
    lock: str
    lock_digest: str
    tasks: int
    runnable: int
    fetched: int
    holdout: Mapping[str, Any] | None
    refusals: Mapping[str, tuple[int, str]]

    def to_dict(self) -> dict[str, Any]:
        row = {key: getattr(self, key) for key in ("environment", "lock", "lock_digest", "tasks", "runnable", "fetched", "holdout")}
        return {key: value for key, value in row.items() if value is not None}


def fetch_entries(
    config: Path,
    site: Site,
    console: Console,
    overrides: tuple[str, ...] = (),
    *,
    update: bool = False,
    repair: bool = False,
    workers: int = WORKERS,
) -> list[FetchedEntry]:
    """Fetches each entry that names a dataset or an adapter. update: resolves what moves. repair: fetches although current.

    Raises ConfigError with the problems of all of them.
    """
    resolved = resolve(config, site, overrides)
    rows: list[FetchedEntry] = []
    problems: list[Problem] = []
    for number, label, entry in resolved.harbor_entries():
        options = HarborOptions.parse(entry["service_kwargs"], key=f"environments.{number}.service_kwargs", file=str(config))
        if not options.is_fetched:
            continue
        console.progress("fetch", label)
        try:
            tools = fetch_tools(site, console, workers=workers, repair=repair)
            fetched = locked_dataset(options, config.parent, tools, update=update)
            say_warnings(console.say, label, fetched)
            splits = split_lock(fetched.lock, options, config.parent)
        except ConfigError as error:
            problems.extend(error.problems)
            continue
        refusals: dict[str, tuple[int, str]] = {}
        for row in fetched.lock.tasks:
            if row.refused is not None:
                code = row.refused.partition(":")[0]
                count, example = refusals.get(code, (0, printable(f"{row.name}: {row.refused}")))
                refusals[code] = (count + 1, example)
        summary = {"holdout": None, **entry_summary(fetched, splits, label)}
        rows.append(FetchedEntry(lock=str(fetched.path), fetched=fetched.copied, refusals=refusals, **summary))
    if problems:
        raise ConfigError(problems)
    if not rows:
        raise ConfigError(Problem("names no dataset to fetch", key="environments", file=str(config)))
    return rows
