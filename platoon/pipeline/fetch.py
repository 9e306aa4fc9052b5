"""Fetches the Harbor datasets of a configuration by hand: what `platoon harbor fetch` does and prints."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platoon.config.load import LoadedConfig, load
from platoon.config.model import ConfigModel
from platoon.envs.harbor.lock import HarborLock
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.sources.protocol import FetchTools
from platoon.envs.harbor.splits import split_lock
from platoon.errors import ConfigError, Problem
from platoon.pipeline.datasets import exclusion_problems, locked_dataset, of_entry, say_odd_splits, say_unserved, say_warnings
from platoon.pipeline.early import shared_lock_problems
from platoon.pipeline.kinds import MARKS
from platoon.pipeline.lock import entry_summary
from platoon.pipeline.resolve import harbor_problems, path_problems, relative_paths, resolve
from platoon.pipeline.sources import HARBOR
from platoon.site import Site
from platoon.train.config_defs.entries import EnvironmentConfig


class EnvironmentsFile(ConfigModel):
    """A file of environments alone, for fetching what they name."""

    environments: list[EnvironmentConfig]


@dataclass(frozen=True)
class FetchedEntry:
    """One line of a fetch. lock: path of the lock by name. tasks: of the lock, `excluded` among them, which nothing else counts.

    fetched: tasks that were copied. refused: tasks in order of id, each with `<code>: <why>`. changes: since the lock before, where
    its source has moved. splits: ids by split, None where every split lists every runnable task.
    """

    environment: str
    lock: str
    lock_digest: str
    resolved: str
    tasks: int
    excluded: int
    runnable: int
    fetched: int
    holdout: Mapping[str, Any] | None
    refused: Sequence[Mapping[str, str]]
    splits: Mapping[str, Sequence[str]] | None
    changes: Mapping[str, Any] | None

    def to_dict(self, *, splits: bool) -> dict[str, Any]:
        """What `--json` prints; splits: with the ids of each."""
        return {key: value for key, value in vars(self).items() if value is not None and (splits or key != "splits")}


def harbor_options(config: Path, site: Site, overrides: tuple[str, ...] = ()) -> list[tuple[int, str, HarborOptions]]:
    """Place, label and options of each entry whose dataset is fetched, of a configuration or a file of environments.

    Paths in them are relative to the file's folder. Raises ConfigError with every problem, and where no entry names a dataset.
    """
    return [(number, label, options) for number, label, _, options in fetched_entries(config, site, overrides)]


def fetched_entries(
    config: Path, site: Site, overrides: tuple[str, ...] = ()
) -> list[tuple[int, str, Mapping[str, Any], HarborOptions]]:
    """`harbor_options`, with the whole entries."""
    found = []
    for number, label, entry in _entries(config, site, overrides):
        key = f"environments.{number}.service_kwargs"
        options = HarborOptions.parse(entry.get("service_kwargs", {}), key=key, file=str(config))
        if options.is_fetched:
            found.append((number, label, entry, options))
    if not found:
        raise ConfigError(Problem("names no dataset to fetch", key="environments", file=str(config)))
    return found


def fetch_entries(
    config: Path, site: Site, tools: FetchTools, overrides: tuple[str, ...] = (), *, update: bool = False
) -> list[FetchedEntry]:
    """Fetches each entry that names a dataset or an adapter. update: resolves what moves; tools.repair: fetches although current.

    Raises ConfigError with the problems of all of them.
    """
    rows: list[FetchedEntry] = []
    problems: list[Problem] = []
    for number, label, entry, options in fetched_entries(config, site, overrides):
        tools.progress(label)
        try:
            fetched = locked_dataset(options, config.parent, tools, update=update)
            say_warnings(tools.say, label, fetched.warnings)
            if found := list(exclusion_problems(fetched.lock, entry, number)):
                raise ConfigError(found)
            excluded = frozenset(entry.get("exclude_tasks", ()))
            splits = split_lock(fetched.lock, options, config.parent).without(excluded)
            say_odd_splits(tools.say, label, splits)
            say_unserved(tools.say, label, fetched.lock, tools.cache, excluded)
        except ConfigError as error:
            problems.extend(of_entry(error.problems, number, str(config)))
            continue
        summary = {
            "holdout": None,
            **entry_summary(fetched, splits, label),
            "lock": str(fetched.path),
            "resolved": fetched.lock.resolved,
            "changes": None if fetched.changes is None else vars(fetched.changes),
            "excluded": len(excluded),
            "runnable": len(splits.every),
            "fetched": fetched.copied,
            "refused": refused_of(fetched.lock, excluded),
        }
        rows.append(FetchedEntry(splits=splits.named, **summary))
    if problems:
        raise ConfigError(problems)
    return rows


def environments_of(loaded: LoadedConfig) -> tuple[EnvironmentsFile | None, list[Problem]]:
    """A file of environments alone, None where it cannot be built, and what is wrong with it."""
    model, problems = loaded.try_build(EnvironmentsFile)
    return model, [*problems, *harbor_problems(loaded), *path_problems(loaded), *shared_lock_problems(loaded)]


def refused_of(lock: HarborLock, excluded: Container[str]) -> list[dict[str, str]]:
    """The tasks that are refused and not excluded, each with its code and reason."""
    rows = (row for row in lock.tasks if row.name not in excluded)
    return [{"task": row.name, "refused": row.refused} for row in rows if row.refused is not None]


def _entries(config: Path, site: Site, overrides: tuple[str, ...]) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    loaded = load(config, overrides)
    if "environments" not in loaded.values and "dataset" in loaded.values:
        advice = "write environments: [{name: tasks, service: harbor, service_kwargs: {dataset: …}}]"
        raise ConfigError(
            Problem("a dataset stands in an environment, not at the top", key="dataset", file=str(config), advice=advice)
        )
    if "environments" not in loaded.values or any(mark in loaded.values for mark in MARKS.values()):
        yield from resolve(config, site, overrides).harbor_entries()
        return
    model, problems = environments_of(loaded)
    if problems or model is None:
        raise ConfigError(problems)
    values = model.plain(only_set=True)
    relative_paths(values, loaded)
    for number, entry in enumerate(values["environments"]):
        if entry.get("service") == HARBOR:
            yield number, entry.get("name") or "default", entry
