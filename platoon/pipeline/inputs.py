"""The inputs of a run or an evaluation as one value: made from a configuration, or read from the folder that holds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from platoon.artifacts.canonical import read_json
from platoon.artifacts.digests import sha256_file
from platoon.artifacts.publish import publish_json
from platoon.envs.harbor.lock import HarborLock
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.sources.protocol import Recorded
from platoon.envs.harbor.splits import Splits, split_lock
from platoon.errors import ConfigError, NotPreparedError, Problem
from platoon.host.console import Console
from platoon.images.image_map import image_map
from platoon.pipeline.kinds import COMMANDS, Kind
from platoon.pipeline.layout import CONFIG, DATASETS, IMAGE_MAP, INPUT_FILES, PLAN
from platoon.pipeline.lock import chat_path, check_harnesses, lock_datasets, read_datasets, restore
from platoon.pipeline.plan import locked, make_plan
from platoon.pipeline.resolve import ResolvedConfig, read_resolved, resolve, write_resolved
from platoon.site import Site


@dataclass(frozen=True)
class EntryInputs:
    """One Harbor environment. options: with the site's provider options laid below. lock and splits: None where none is locked."""

    label: str
    options: HarborOptions
    lock: HarborLock | None
    splits: Splits | None
    excluded: frozenset[str]
    cache: HarborCache

    def task_ids(self, split: str) -> tuple[str, ...]:
        """Ids of a split without what the entry excludes. Raises ConfigError for an unknown split."""
        assert self.splits is not None
        return tuple(name for name in self.splits.ids(split) if name not in self.excluded)


@dataclass(frozen=True)
class RunInputs:
    """Everything a run is made from.

    values: the resolved configuration, plain. digests: of the input files by name. entries: Harbor environments by label.
    chat: files of conversations in the cache, by the path the configuration gives. image_map: plain.
    """

    directory: Path
    kind: Kind
    values: Mapping[str, Any]
    digests: Mapping[str, str]
    entries: Mapping[str, EntryInputs]
    chat: Mapping[str, Path]
    image_map: Mapping[str, Any]


def build_inputs(
    config: Path,
    directory: Path,
    site: Site,
    console: Console,
    overrides: tuple[str, ...] = (),
    *,
    recorded: Mapping[str, Recorded] | None = None,
) -> RunInputs:
    """Makes the four files of a configuration in `directory` and reads them. Raises ConfigError before any of them is written.

    recorded: what sources of datasets were when they were locked before, by environment.
    """
    resolved = resolve(config, site, overrides)
    datasets = lock_datasets(resolved, config.parent, site, console, recorded)
    plan = make_plan(resolved, datasets, site)
    mapped = image_map(plan)
    write_resolved(directory / CONFIG, resolved)
    publish_json(directory / DATASETS, datasets)
    publish_json(directory / PLAN, plan)
    publish_json(directory / IMAGE_MAP, mapped)
    return read_inputs(directory, site, config.parent, console)


def read_inputs(directory: Path, site: Site, base: Path | None = None, console: Console | None = None) -> RunInputs:
    """Reads a folder of inputs. base: what the configuration's own relative paths are relative to.

    Data that the cache lost is fetched again when `base` says from where. Raises NotPreparedError when a file, a lock or a file of
    conversations is missing, or the data changed since.
    """
    for name in INPUT_FILES:
        if not (directory / name).is_file():
            raise NotPreparedError(Problem("is missing", file=str(directory / name), advice="run platoon prepare"))
    resolved = read_resolved(directory / CONFIG)
    datasets = read_datasets(directory / DATASETS)
    if base is not None:
        check_harnesses(resolved, datasets, base)
        restore(resolved, datasets, base, site, console or Console())
    return RunInputs(
        directory=directory,
        kind=resolved.kind,
        values=resolved.values,
        digests={name: sha256_file(directory / name) for name in INPUT_FILES},
        entries=_entries(resolved, datasets, site, base or Path()),
        chat=_chat(datasets, site),
        image_map=read_json(directory / IMAGE_MAP, "image map"),
    )


@contextmanager
def opened_inputs(
    kind: Kind, config: Path, overrides: tuple[str, ...], made: Path | None, *, site: Site, console: Console
) -> Iterator[RunInputs]:
    """The inputs of `config` while they are looked at: those that were made, or else made in a place that is gone afterwards.

    made: a folder of inputs, which takes no overrides any more. Raises ConfigError for inputs of another kind too.
    """
    if made is not None and overrides:
        raise ConfigError(Problem("resolved inputs take no overrides", key=overrides[0], advice="give them to platoon resolve"))
    with TemporaryDirectory(prefix="platoon-inputs-") as passing:
        if made is not None:
            found = read_inputs(made, site, config.parent)
        else:
            found = build_inputs(config, Path(passing), site, console, overrides)
        if found.kind != kind:
            reader = COMMANDS[found.kind]
            raise ConfigError(Problem(f"is read by {reader}, not by {COMMANDS[kind]}", file=str(config), advice=f"use {reader}"))
        yield found


def _entries(resolved: ResolvedConfig, datasets: Mapping[str, Any], site: Site, base: Path) -> dict[str, EntryInputs]:
    by_label = {entry["environment"]: entry for entry in datasets["harbor"]}
    cache = HarborCache(site.harbor_cache)
    found: dict[str, EntryInputs] = {}
    for number, label, entry in resolved.harbor_entries():
        options = HarborOptions.parse(_with_site(entry["service_kwargs"], site), key=f"environments.{number}.service_kwargs")
        lock, splits = None, None
        if "lock_digest" in by_label.get(label, {}):
            lock = locked(by_label[label], cache)
            splits = _splits(lock, options, by_label[label], base)
        found[label] = EntryInputs(label, options, lock, splits, frozenset(entry.get("exclude_tasks", ())), cache)
    return found


def _splits(lock: HarborLock, options: HarborOptions, entry: Mapping[str, Any], base: Path) -> Splits:
    # A manifest was read when the dataset was locked; what it said then is what holds.
    if "splits" in entry:
        return Splits(lock.runnable, {name: tuple(ids) for name, ids in entry["splits"].items()})
    return split_lock(lock, options, base)


def _with_site(options: Mapping[str, Any], site: Site) -> dict[str, Any]:
    if site.provider is None or options.get("provider", site.provider) != site.provider:
        return dict(options)
    return {
        **options,
        "provider": site.provider,
        "provider_options": {**site.provider_options, **options.get("provider_options", {})},
    }


def _chat(datasets: Mapping[str, Any], site: Site) -> dict[str, Path]:
    found = {entry["path"]: chat_path(site, entry["digest"]) for entry in datasets["chat"]}
    for text, path in found.items():
        if not path.is_file():
            raise NotPreparedError(Problem(f"{text} is not in the cache", file=str(path), advice="run platoon prepare"))
    return found
