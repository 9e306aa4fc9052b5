"""From a configuration file to its resolved form: layers merged and checked, paths relative to the file's folder, no host value.

The result has the same bytes wherever the same files lie. Keys that were not given stay out: an entry that says nothing of a key
takes it from the layer below, so a default spelled out would change its meaning. What belongs to a machine stays out too: places of
outputs, and of the site all but the name of its sandbox provider.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platoon.artifacts.publish import publish_json
from platoon.config.addresses import is_address
from platoon.config.files import named_path, path_fault, relative_path
from platoon.config.load import LoadedConfig, load
from platoon.config.text import short_path
from platoon.config.yaml import read_yaml
from platoon.envs.harbor.lock import is_other_file
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.sources.reference import DirectoryReference, parse_reference
from platoon.errors import ConfigError, Problem
from platoon.pipeline.early import raw_harbor_options, service_problems, shared_lock_problems, split_problems
from platoon.pipeline.kinds import Kind, kind_of, model_of
from platoon.pipeline.providers import provider_key, provider_problems
from platoon.pipeline.sources import HARBOR, is_written, wanted_at, written_paths
from platoon.site import Site

RULE = "platoon-config-v1"
# Of this machine, or a secret: neither reproduces anything.
LEFT_OUT = (("log_path",), ("inference", "output_dir"))


@dataclass(frozen=True)
class ResolvedConfig:
    """kind: which model the values are of. values: plain JSON, the keys that were given. file: where they are, for messages."""

    kind: Kind
    values: Mapping[str, Any]
    file: str = field(default="", compare=False)

    def harbor_entries(self) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
        """Place, label and entry of each environment that serves a Harbor dataset."""
        for number, entry in enumerate(self.values.get("environments", ())):
            if entry.get("service") == HARBOR:
                yield number, entry.get("name") or "default", entry

    def to_dict(self) -> dict[str, Any]:
        return {"rule": RULE, "kind": self.kind, "config": self.values}


def resolve(config: Path, site: Site, overrides: tuple[str, ...] = ()) -> ResolvedConfig:
    """Loads, checks and resolves a configuration. Raises ConfigError with every problem of all its parts."""
    resolved, problems = try_resolve(config, site, overrides)
    if problems or resolved is None:
        raise ConfigError(problems)
    return resolved


def try_resolve(config: Path, site: Site, overrides: tuple[str, ...] = ()) -> tuple[ResolvedConfig | None, list[Problem]]:
    """The resolved configuration, None where it cannot be made, and every problem found.

    Raises ConfigError for what is no configuration at all.
    """
    loaded = load(config, overrides)
    kind = kind_of(loaded.values, config)
    model, problems = loaded.try_build(model_of(kind))
    problems += harbor_problems(loaded)
    problems += path_problems(loaded)
    problems += shared_lock_problems(loaded)
    problems += service_problems(loaded)
    problems += split_problems(loaded, kind)
    problems += _providers(loaded, site)
    if problems or model is None:
        return None, problems
    values = model.plain(only_set=True)
    for *above, key in LEFT_OUT:
        holder = values
        for name in above:
            holder = holder.get(name, {})
        holder.pop(key, None)
    relative_paths(values, loaded)
    _take_provider(values, site)
    return ResolvedConfig(kind, values, str(config)), []


def write_resolved(path: Path, resolved: ResolvedConfig) -> None:
    """Publishes the canonical form; JSON is YAML."""
    publish_json(path, resolved.to_dict())


def read_resolved(path: Path) -> ResolvedConfig:
    """What `write_resolved` wrote. Raises ConfigError."""
    value = read_yaml(path)
    if not isinstance(value, dict) or value.get("rule") != RULE or value.get("kind") not in ("train", "evaluation"):
        raise ConfigError(
            Problem(f"is no resolved configuration of rule {RULE}", file=str(path), advice="run platoon resolve again")
        )
    return ResolvedConfig(value["kind"], value["config"], str(path))


def harbor_problems(loaded: LoadedConfig) -> Iterator[Problem]:
    """Faults in the options of Harbor entries, each with the file that set it."""
    for number, options in raw_harbor_options(loaded.values):
        key = f"environments.{number}.service_kwargs"
        file = loaded.file_of(("environments", str(number), "service_kwargs"))
        try:
            HarborOptions.parse(options, key=key, file=file)
        except ConfigError as error:
            yield from error.problems


def path_problems(loaded: LoadedConfig) -> Iterator[Problem]:
    """Data that is named and not there, or not of its kind; found before anything is fetched, to be reported with all else."""
    for keys, text in written_paths(loaded.values):
        if is_address(text) or "\0" in text or not text or not _may_be_path(keys, text):
            continue
        place, written = named_path(text, loaded.directory_of(*keys)), is_written(keys, loaded.values)
        fault = path_fault(place, wanted_at(keys), missing=written)
        advice = "paths are relative to the file that names them" if fault is not None and fault.startswith("no such") else ""
        if fault is None and written and is_other_file(place):
            fault, advice = "is no lock, and would be overwritten", "move it away, or name another file"
        if fault is not None:
            yield Problem(f"{fault}: {short_path(text)}", key=".".join(keys), file=loaded.file_of(keys), advice=advice)


def relative_paths(values: dict[str, Any], loaded: LoadedConfig) -> None:
    """Rewrites the paths of data in plain values to be relative to the folder of the file that was loaded."""
    base = loaded.path.parent
    for keys, text in list(written_paths(values)):
        if not is_address(text) and not text.startswith("~") and "\0" not in text and _may_be_path(keys, text):
            _set(values, keys, relative_path(loaded.directory_of(*_origin_keys(loaded, keys)) / text, base))


def _may_be_path(keys: tuple[str, ...], text: str) -> bool:
    """Whether what a key names is a path: a dataset may be a reference, and what is none at all is told as that."""
    if keys[-1] != "dataset":
        return True
    try:
        return isinstance(parse_reference(text), DirectoryReference)
    except ValueError:
        return False


def _origin_keys(loaded: LoadedConfig, keys: tuple[str, ...]) -> tuple[str, ...]:
    return keys if loaded.layered.origin(keys) else keys[:-1]


def _set(values: Any, keys: tuple[str, ...], text: str) -> None:
    for key in keys[:-1]:
        values = values[int(key)] if isinstance(values, list) else values[key]
    if isinstance(values, list):
        values[int(keys[-1])] = text
    else:
        values[keys[-1]] = text


def _providers(loaded: LoadedConfig, site: Site) -> Iterator[Problem]:
    """What is wrong with the sandbox providers of Harbor entries, each with the file that names it."""
    of_site = set[int]()
    entries: list[tuple[int, str, Mapping[str, Any]]] = []
    for number, options in raw_harbor_options(loaded.values):
        if "provider" not in options and site.provider is not None:
            of_site.add(number)
        provider = options.get("provider", site.provider)
        if provider is None or isinstance(provider, str):
            entries.append((number, "", {"service_kwargs": {"provider": provider}}))

    def named_in(number: int) -> tuple[str, str]:
        if number in of_site:
            return str(site.file or ""), "provider"
        key = provider_key(number)
        return loaded.file_of(tuple(key.split("."))), key

    return provider_problems(entries, named_in)


def _take_provider(values: dict[str, Any], site: Site) -> None:
    """Names the site's provider where an entry names none."""
    for entry in values.get("environments", ()):
        if entry.get("service") == HARBOR and site.provider is not None:
            options = entry.setdefault("service_kwargs", {})
            if "provider" not in options:
                options["provider"] = site.provider
