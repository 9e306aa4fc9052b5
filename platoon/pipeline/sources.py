"""Which files a configuration is made of: what the workflow declares as inputs of its rules.

Cheap and tolerant: it runs whenever the workflow is parsed, builds no model, and leaves every fault to the command that reports it
well. A file that is missing is left out, so that the command runs and says so.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from platoon.config.load import LoadedConfig, load
from platoon.config.yaml import read_yaml
from platoon.errors import ConfigError

HARBOR = "harbor"
HARBOR_PATHS = ("dataset", "dataset_dir", "task_dirs", "tasks", "splits")
EXTENDS_LIMIT = 100


def config_files(config: str | Path) -> list[str]:
    """A configuration and what it extends, in order of reading; only files that are there."""
    found: list[str] = []
    pending = [Path(config)]
    while pending and len(found) < EXTENDS_LIMIT:
        path = pending.pop()
        if str(path) in found or not path.is_file():
            continue
        found.append(str(path))
        try:
            value = read_yaml(path)
        except ConfigError:
            continue
        bases = value.get("extends") if isinstance(value, dict) else None
        names = [bases] if isinstance(bases, str) else bases if isinstance(bases, list) else []
        pending += [path.parent / Path(name).expanduser() for name in names if isinstance(name, str) and "\0" not in name]
    return found


def data_files(config: str | Path) -> list[str]:
    """Every file of the data a configuration names: datasets, allowlists, conversations; sorted, hidden ones left out."""
    try:
        loaded = load(Path(config))
    except ConfigError:
        return []
    found: set[str] = set()
    for path in data_paths(loaded):
        found.update(_files(path))
        if path.suffix == ".toml":
            found.update(os.path.normpath(asset) for asset in _assets(path) if asset.is_file())
    return sorted(found)


def data_paths(loaded: LoadedConfig) -> Iterator[Path]:
    """The paths a configuration gives to data, joined to the folders they are relative to."""
    for keys, text in written_paths(loaded.values):
        if "://" not in text and "\0" not in text:
            yield loaded.directory_of(*keys) / Path(text).expanduser()


def written_paths(values: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Keys and texts of the paths to data, as written; whatever has another form is skipped."""
    entries = values.get("environments")
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        options = entry.get("service_kwargs") if isinstance(entry, dict) and entry.get("service") == HARBOR else None
        if isinstance(options, dict):
            for name in HARBOR_PATHS:
                yield from _texts(("environments", str(number), "service_kwargs", name), options.get(name))
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


def _assets(path: Path) -> Iterator[Path]:
    """Files beside a harness spec that it brings along; none of another TOML file."""
    try:
        launch = tomllib.loads(path.read_text(encoding="utf-8")).get("launch")
    except (OSError, ValueError):
        return
    assets = launch.get("assets") if isinstance(launch, dict) else None
    for name in assets.values() if isinstance(assets, dict) else ():
        if isinstance(name, str) and "\0" not in name:
            yield path.parent / name


def _files(path: Path) -> Iterator[str]:
    if path.is_file():
        yield os.path.normpath(path)
        return
    for directory, names, files in os.walk(path):
        names[:] = [name for name in names if not name.startswith(".") and name != "__pycache__"]
        for name in files:
            # Names that are no UTF-8 or break lines are refused when the data is fetched; the workflow cannot even list them.
            if (not name.startswith(".") or name == ".gitignore") and name.isprintable():
                yield os.path.normpath(Path(directory, name))
