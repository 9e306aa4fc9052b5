"""A dataset that a program generates: it runs on a checkout of its repository at a commit, and what it wrote is a local directory.

The commit pins the program, not what it downloads: the lock pins the tasks by content, and a later run that writes other tasks is
noticed when its lock is compared with the one before.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platoon.config.addresses import is_address
from platoon.config.credentials import hide_credentials
from platoon.config.files import named_path
from platoon.config.text import printable
from platoon.envs.harbor.sources.adapter_options import CHECKOUT, OUTPUT, AdapterOptions
from platoon.envs.harbor.sources.directory import DirectoryDataset, DirectoryTree
from platoon.envs.harbor.sources.git_store import open_store
from platoon.envs.harbor.sources.places import make_directory, staging
from platoon.envs.harbor.sources.protocol import FetchTools, Recorded
from platoon.envs.harbor.sources.reference import check_inner_path
from platoon.envs.harbor.templates import resolve_value, template_of
from platoon.errors import ConfigError, PlatoonError, Problem
from platoon.host.run_command import CommandResult, run_blocking

FETCHED_WITH = "adapter"
TIMEOUT_S = 24 * 3600.0
SHOWN_LINES = 20

_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "PYTHONUTF8", "HF_HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
_KEPT_PREFIXES = ("XDG_", "UV_")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@dataclass(frozen=True)
class AdapterSource:
    """place: the repository, a URL or an absolute path."""

    options: AdapterOptions
    place: str
    pinned: bool = True
    is_local: bool = False
    fetched_with: str = FETCHED_WITH

    @property
    def reference(self) -> str:
        path = check_inner_path(self.options.path)
        return f"adapter:{self.options.repo}@{self.options.commit}" + (f"#{path}" if path else "")

    def inputs(self) -> Mapping[str, Any]:
        return {"adapter": self.options.plain()}

    def fault(self, rule: str, key: str, advice: str = "") -> ConfigError:
        """A fault of what an entry says at a key of `adapter`."""
        return ConfigError(Problem(f"{printable(self.reference)}: {rule}", key=f"adapter.{key}".rstrip("."), advice=advice))

    @property
    def source(self) -> Mapping[str, Any]:
        options = self.options
        return {
            "kind": "adapter",
            "repo": options.repo,
            "commit": options.commit,
            "path": check_inner_path(options.path),
            "command": options.command,
            "args": options.args,
            "env_names": sorted(options.env),
            "sparse": options.sparse,
        }

    @contextmanager
    def resolve(self, tools: FetchTools, recorded: Recorded | None = None) -> Iterator[DirectoryDataset]:
        options = self.options
        environment = adapter_environment(options.env, tools.environment)
        paths = ("",) if options.sparse is None else tuple(check_inner_path(path) for path in options.sparse)
        with staging(tools.cache) as place:
            output = place / "output"
            make_directory(output)
            with open_store(self.place, tools, commit=options.commit, shown_as=options.repo) as store:
                store.fetch(options.commit)
                with store.checkout(options.commit, paths) as checkout:
                    run_adapter(self, checkout.tree, output, environment, tools)
            yield DirectoryDataset(DirectoryTree(self.reference, output), self.source, options.commit)


def adapter_source(options: AdapterOptions, base: Path) -> AdapterSource:
    """A local repository is relative to `base`."""
    if is_address(options.repo):
        return AdapterSource(options, options.repo)
    return AdapterSource(options, str(named_path(options.repo, base).absolute()))


def adapter_environment(wanted: Mapping[str, str], host: Mapping[str, str]) -> dict[str, str]:
    """The variables an adapter runs with. Raises ConfigError for a template whose variable is unset."""
    kept = {key: value for key, value in host.items() if key in _KEPT or key.startswith(_KEPT_PREFIXES) or key.lower() in _PROXIES}
    problems = []
    for name, value in wanted.items():
        try:
            kept[name] = resolve_value(value, host)
        except KeyError as error:
            rule = f"the variable {printable(str(error.args[0]))} is not set here"
            problems.append(Problem(rule, key=f"adapter.env.{name}"))
    if problems:
        raise ConfigError(problems)
    return kept


def adapter_command(options: AdapterOptions, checkout: Path, output: Path) -> list[str]:
    """The words to run."""
    words = [*options.command, *options.args]
    if not any(OUTPUT in word for word in words):
        words += ["--output-dir", OUTPUT]
    return [word.replace(OUTPUT, str(output)).replace(CHECKOUT, str(checkout)) for word in words]


def run_adapter(source: AdapterSource, checkout: Path, output: Path, environment: Mapping[str, str], tools: FetchTools) -> None:
    """Runs the program to its end. Raises ConfigError when it is not there, PlatoonError when it fails."""
    options = source.options
    directory = checkout / check_inner_path(options.path)
    if not directory.is_dir() or not directory.resolve().is_relative_to(checkout.resolve()):
        raise source.fault(f"the commit has no directory {printable(options.path)}", "path")
    command = adapter_command(options, checkout, output)
    shown = shlex.join(options.command)
    try:
        result = run_blocking(
            command,
            cwd=directory,
            env=environment,
            timeout_s=TIMEOUT_S,
            tick=lambda: tools.progress(f"running {printable(shown)[:80]}, {len(_written(output))} written"),
        )
    except OSError as error:
        rule = f"the program cannot be run: {printable(options.command[0])}: {error.strerror}"
        raise source.fault(rule, "command") from None
    if result.exit_code or result.timed_out:
        why = "took too long" if result.timed_out else f"ended with {result.ending}"
        raise PlatoonError(f"{source.reference}: {printable(shown)} {why}\n{_said(result, environment, options)}")
    if not _written(output):
        raise source.fault("wrote no task", "", f"it must write to {OUTPUT}")


def _written(output: Path) -> list[str]:
    """Names in the output directory; none where the program put no directory, or a link, in its place."""
    try:
        return [] if output.is_symlink() else [path.name for path in output.iterdir()]
    except OSError:
        return []


def _said(result: CommandResult, environment: Mapping[str, str], options: AdapterOptions) -> str:
    text = hide_credentials((result.stderr or result.stdout).decode("utf-8", "replace"))
    # Values that came from the host are nobody's to read in a log.
    for name, value in options.env.items():
        if template_of(value) is not None and len(environment[name]) > 3:
            text = text.replace(environment[name], "***")
    return "\n".join(printable(line) for line in text.splitlines()[-SHOWN_LINES:])
