"""The site file: where caches and runs lie and which sandboxes a site has. Providers judge their options themselves.

Which file: `--site`, else `PLATOON_SITE`, else `$XDG_CONFIG_HOME/platoon/site.yaml` (`~/.config` without the variable), else none.
`--site none` takes the defaults.
`~` and `$VAR` or `${VAR}` expand in paths; relative paths are relative to the file. A named file must exist.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from platoon.config.files import path_fault
from platoon.config.load import load
from platoon.config.model import ConfigModel, Options
from platoon.config.text import short_path
from platoon.errors import ConfigError, Problem

VARIABLE = "PLATOON_SITE"
REMOVED_VARIABLES = ("PLATOON_HARBOR_CACHE", "PLATOON_TOOLCHAINS")
DEFAULT_CACHE = "~/.cache/platoon"
DEFAULTS = "none"
DEFAULT_RUNS = "runs"
STATE_DIR = ".tinker"

_REFERENCE = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_]\w*)\}|(?P<bare>[A-Za-z_]\w*))")


class SiteFile(ConfigModel):
    """What a site file may say; every key is optional."""

    cache: str = DEFAULT_CACHE
    """root of the content-addressed cache that runs and nodes share"""
    runs: str | None = None
    """root of run directories; a training run without `log_path` goes below it"""
    provider: str | None = None
    """sandbox provider of every Harbor entry that names none"""
    provider_options: Options = Field(default_factory=dict)
    """options laid below an entry's own `provider_options`"""
    node_services: Options = Field(default_factory=dict)
    """services of the site's nodes that an entry takes by name: `{name: site}`"""


@dataclass(frozen=True)
class Site:
    """The site of this process. cache and runs are absolute; file: where it was read, None for the defaults."""

    cache: Path
    runs: Path | None = None
    provider: str | None = None
    provider_options: dict[str, Any] = field(default_factory=dict)
    node_services: dict[str, Any] = field(default_factory=dict)
    file: Path | None = None

    def state_dir(self, runs: Path | None = None) -> Path:
        """Where embedded services keep checkpoints and tokenizers: one directory below the root of runs, shared by all of them.

        runs: the root where the site names none; without either, `runs` in the working directory.
        """
        return (self.runs or runs or Path(DEFAULT_RUNS)).absolute() / STATE_DIR

    @property
    def harbor_cache(self) -> Path:
        """The part of the cache that datasets and their images use."""
        return self.cache / "harbor"


def load_site(option: Path | None = None) -> Site:
    """The site of this process. Raises ConfigError with every problem of the file, and for variables that were removed."""
    for name in REMOVED_VARIABLES:
        if os.environ.get(name):
            raise ConfigError(Problem("was removed", key=name, advice="unset it and set cache: in the site file"))
    path = site_file(option)
    if path is None:
        return Site(cache=Path(DEFAULT_CACHE).expanduser())
    loaded = load(path)
    values = loaded.build(SiteFile)
    problems: list[Problem] = []

    def resolve(key: str, text: str) -> Path:
        try:
            return expand(text, loaded.directory_of(key))
        except ValueError as error:
            problems.append(Problem(str(error), key=key, file=loaded.file_of((key,))))
            return Path()

    cache = resolve("cache", values.cache)
    runs = resolve("runs", values.runs) if values.runs is not None else None
    if values.provider_options and values.provider is None:
        problems.append(Problem("needs a provider", key="provider_options", file=loaded.file_of(("provider_options",))))
    if problems:
        raise ConfigError(problems)
    return Site(cache, runs, values.provider, values.provider_options, values.node_services, path)


def site_file(option: Path | None = None) -> Path | None:
    """The file that is in force, None when there is none. Raises ConfigError when a named one is missing."""
    if option is not None and str(option) == DEFAULTS:
        return None
    named = option or (Path(text) if (text := os.environ.get(VARIABLE)) else None)
    if named is not None:
        if (fault := path_fault(named, "file")) is not None:
            source = "--site" if option else VARIABLE
            raise ConfigError(Problem(f"is no site file: {fault}", key=source, file=short_path(str(named))))
        return named
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    users = Path(base).expanduser() / "platoon" / "site.yaml"
    return users if users.is_file() else None


def expand(text: str, directory: Path) -> Path:
    """The absolute path a text names. Raises ValueError for an unset variable, an unknown home and what can be no path."""

    def value(match: re.Match[str]) -> str:
        name = match["braced"] or match["bare"]
        if not (found := os.environ.get(name)):
            raise ValueError(f"the variable {name} is not set")
        return found

    try:
        path = Path(_REFERENCE.sub(value, text)).expanduser()
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    if not text or "\0" in text:
        raise ValueError("must be a path")
    return Path(os.path.normpath(directory.absolute() / path))
