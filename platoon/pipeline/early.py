"""What can be judged of the parts of a configuration one by one, before it is whole and before anything is fetched.

Reads values as they were loaded, skips what has another form than it should (the models report that), and imports no code of the
user's: so every fault of a file comes in one report.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from platoon.config.files import named_path
from platoon.config.load import LoadedConfig
from platoon.config.model import nearest
from platoon.config.text import printable, show
from platoon.envs import service_problem
from platoon.envs.harbor.selection import read_list_file, read_mapping
from platoon.envs.harbor.splits import HOLDOUT_SPLITS
from platoon.errors import ConfigError, Problem
from platoon.pipeline.kinds import Kind, model_of
from platoon.pipeline.sources import HARBOR, is_written

Place = tuple[str, ...]
# Options that decide what is in a lock.
ASKED = ("dataset", "adapter", "registry", "tasks", "select", "refuse", "overlays", "index")


def raw_entries(values: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Place and values of each entry that is a mapping."""
    entries = values.get("environments")
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict):
            yield number, entry


def raw_harbor_options(values: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Place and options of each Harbor entry."""
    for number, entry in raw_entries(values):
        options = entry.get("service_kwargs", {})
        if entry.get("service") == HARBOR and isinstance(options, dict):
            yield number, options


def service_problems(loaded: LoadedConfig) -> Iterator[Problem]:
    """Entries whose service is neither built in nor named as `module:Name`."""
    for number, entry in raw_entries(loaded.values):
        place = ("environments", str(number), "service")
        name = entry.get("service")
        if isinstance(name, str) and name and (found := service_problem(name, key=".".join(place))) is not None:
            yield Problem(found.rule, found.key, loaded.file_of(place), found.advice)


def shared_lock_problems(loaded: LoadedConfig) -> Iterator[Problem]:
    """Entries that would write over the lock of an earlier one, which asks for something else."""
    writers: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for number, entry in raw_entries(loaded.values):
        place = ("environments", str(number), "service_kwargs", "lock")
        options = entry.get("service_kwargs")
        if entry.get("service") != HARBOR or not isinstance(options, dict) or not is_written(place, loaded.values):
            continue
        lock = options.get("lock")
        if not isinstance(lock, str) or not lock or "\0" in lock:
            continue
        label, asked = str(entry.get("name") or "default"), {key: options.get(key) for key in ASKED}
        path = os.path.realpath(named_path(lock, loaded.directory_of(*place)))
        first, before = writers.setdefault(path, (label, asked))
        if before != asked:
            rule = f"environments {printable(first)} and {printable(label)} ask for different tasks and would write the same lock"
            yield Problem(rule, ".".join(place), loaded.file_of(place), "give each a lock of its own, or leave lock out")


def split_problems(loaded: LoadedConfig, kind: Kind) -> Iterator[Problem]:
    """An evaluation's split that one of its entries does not have. Without a hold-out or a file of splits every name lists all."""
    split = loaded.values.get("split", model_of(kind).model_fields["split"].default) if kind == "evaluation" else None
    if not isinstance(split, str) or not split:
        return
    for number, options in raw_harbor_options(loaded.values):
        known = _known_splits(loaded, number, options)
        if known is not None and split not in known:
            rule = f"no split of environments.{number} is called {show(split)}; there is: {', '.join(known)}"
            advice = nearest(split, known)
            yield Problem(rule, "split", loaded.file_of(("split",)), advice if advice.startswith("did") else "name one of them")


def _known_splits(loaded: LoadedConfig, number: int, options: Mapping[str, Any]) -> list[str] | None:
    """None where any name will do, and where the file of splits has a fault, which is reported when it is read for the lock."""
    if options.get("holdout") is not None:
        return list(HOLDOUT_SPLITS)
    path = options.get("splits")
    if not isinstance(path, str) or not path or "\0" in path:
        return None
    base = loaded.directory_of("environments", str(number), "service_kwargs", "splits")
    try:
        named = read_mapping(read_list_file(named_path(path, base), path), path, "splits")
    except ConfigError:
        return None
    return sorted(named) if isinstance(named, dict) else None
