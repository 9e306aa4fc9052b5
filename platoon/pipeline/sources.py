"""Which files a configuration is made of: what the workflow declares as inputs of its rules.

Cheap and tolerant: it runs whenever the workflow is parsed, builds no model, and leaves every fault to the command that reports it
well. A file that is missing is left out, so that the command runs and says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from platoon.artifacts.reading import parse_json, parse_toml, read_regular
from platoon.config.addresses import is_address
from platoon.config.files import Wanted, named_path, path_fault
from platoon.config.load import LoadedConfig, try_load

HARBOR = "harbor"
HARBOR_PATHS = ("dataset", "dataset_dir", "task_dirs", "tasks", "splits", "registry", "overlays", "lock")
REGISTRY_LIMIT_BYTES = 64 * 1024 * 1024
ADAPTER_REPO = ("adapter", "repo")
DIRECTORIES = frozenset({"dataset", "dataset_dir", "task_dirs", "overlays", "repo"})


@dataclass(frozen=True)
class Sources:
    """config: the configuration and what it extends, in order of reading. data: every file of the data it names, sorted."""

    config: tuple[str, ...]
    data: tuple[str, ...]


def read_sources(config: str | Path) -> Sources:
    """The files that a configuration is made of; only those that are there."""
    loaded, _ = try_load(Path(config))
    return Sources(tuple(str(path) for path in loaded.files if path_fault(path, "file") is None), tuple(_data_files(loaded)))


def _data_files(loaded: LoadedConfig) -> list[str]:
    """Datasets, allowlists, conversations; hidden files left out.

    Not the repository of an adapter, which is read at a commit, nor a lock that is written.
    """
    found: set[str] = set()
    for keys, text in written_paths(loaded.values):
        if is_address(text) or "\0" in text or keys[-2:] == ADAPTER_REPO or is_written(keys, loaded.values):
            continue
        path = named_path(text, loaded.directory_of(*keys))
        found.update(_files(path))
        if keys[-1] == "registry":
            for beside in _beside_registry(path):
                found.update(_files(beside))
        if path.suffix == ".toml":
            found.update(os.path.normpath(asset) for asset in _assets(path) if path_fault(asset, "file") is None)
    return sorted(found)


def wanted_at(keys: tuple[str, ...]) -> Wanted:
    """What the path at a place of `written_paths` must be."""
    # An item of a list stands below the key of the list.
    return "directory" if DIRECTORIES & set(keys[-2:]) else "file"


def is_written(keys: tuple[str, ...], values: Mapping[str, Any]) -> bool:
    """Whether a path is of a lock that a fetch writes, which need not be there yet."""
    if keys[-1] != "lock":
        return False
    options = values["environments"][int(keys[1])]["service_kwargs"]
    return options.get("dataset") is not None or options.get("adapter") is not None


def written_paths(values: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Keys and texts of the paths to data, as written; whatever has another form is skipped."""
    entries = values.get("environments")
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        options = entry.get("service_kwargs") if isinstance(entry, dict) and entry.get("service") == HARBOR else None
        if isinstance(options, dict):
            for name in HARBOR_PATHS:
                yield from _texts(("environments", str(number), "service_kwargs", name), options.get(name))
            adapter = options.get("adapter")
            if isinstance(adapter, dict):
                yield from _texts(("environments", str(number), "service_kwargs", *ADAPTER_REPO), adapter.get("repo"))
        harness = entry.get("harness") if isinstance(entry, dict) else None
        if is_spec(harness):
            yield ("environments", str(number), "harness"), harness
    trainer_options = values.get("trainer_options")
    if values.get("trainer") == "sft" and isinstance(trainer_options, dict):
        yield from _texts(("trainer_options", "data"), trainer_options.get("data"))


def is_spec(harness: Any) -> TypeGuard[str]:
    """Whether a harness is named by the path of its spec."""
    return isinstance(harness, str) and harness.endswith(".toml") and ":" not in harness


def _texts(keys: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, list):
        for place, item in enumerate(value):
            if isinstance(item, str):
                yield (*keys, str(place)), item


def _beside_registry(path: Path) -> Iterator[Path]:
    """Task directories of a registry file that lie beside it."""
    try:
        value = parse_json(read_regular(path, REGISTRY_LIMIT_BYTES))
    except (OSError, ValueError):
        return
    for dataset in value if isinstance(value, list) else [value]:
        tasks = dataset.get("tasks") if isinstance(dataset, dict) else None
        for task in tasks if isinstance(tasks, list) else []:
            place = task.get("path") if isinstance(task, dict) and not task.get("git_url") else None
            if isinstance(place, str) and "\0" not in place:
                yield path.parent / place


def _assets(path: Path) -> Iterator[Path]:
    """Files beside a harness spec that it brings along; none of another TOML file."""
    try:
        launch = parse_toml(read_regular(path)).get("launch")
    except (OSError, ValueError):
        return
    assets = launch.get("assets") if isinstance(launch, dict) else None
    for name in assets.values() if isinstance(assets, dict) else ():
        if isinstance(name, str) and "\0" not in name:
            yield path.parent / name


def _files(path: Path) -> Iterator[str]:
    if path_fault(path, "file") is None:
        yield os.path.normpath(path)
        return
    for directory, names, files in os.walk(path):
        names[:] = [name for name in names if not name.startswith(".") and name != "__pycache__"]
        for name in files:
            # Names that are no UTF-8 or break lines are refused when the data is fetched; the workflow cannot even list them.
            if (not name.startswith(".") or name == ".gitignore") and name.isprintable():
                yield os.path.normpath(Path(directory, name))
