"""What reading a compose file needs at hand: the task's files, variables and findings, and the walk that interpolates a tree."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platoon.config.model import nearest
from platoon.envs.harbor.compose.errors import ComposeError, Findings
from platoon.envs.harbor.compose.interpolate import Budget, Use, interpolate
from platoon.envs.harbor.compose.stack_plan import Port, ServicePlan
from platoon.envs.harbor.compose.subset import ADVICE, SUBSET, Role, is_empty
from platoon.envs.harbor.compose.text import ContextPart, Text
from platoon.envs.harbor.compose.variables import TaskVariables
from platoon.envs.harbor.task_toml import EnvironmentTable
from platoon.host.trees import kind_below

BASE = "environment"
REMOTE_CONTEXTS = ("http://", "https://", "git://", "ssh://", "git@", "github.com/")
ADVISED_PROBLEMS = 20
UNKNOWN_KEY = "unknown key"
# Keys in which an unset variable may stand for nothing, as compose has it everywhere.
BLANK_KEYS = frozenset({"environment", "labels", "annotations"})


@dataclass(frozen=True)
class Build:
    """`build:` of a service. context: task-relative directory. dockerfile: relative to the context."""

    context: str
    dockerfile: str = "Dockerfile"
    args: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None


@dataclass
class Draft:
    """A service as read, before the stack is put together. plan: fields of its `ServicePlan`, but for the aliases.

    aliases: each with the key that gives it. asks_build: whether it has a `build:`, be it one that cannot be read.
    """

    name: str
    role: Role
    plan: dict[str, Any] = field(default_factory=dict)
    image: Text | None = None
    build: Build | None = None
    asks_build: bool = False
    networks: frozenset[str] | None = frozenset({"default"})
    links: list[tuple[str, str | None]] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    network_mode: str = ""
    gpus: int | None = None
    privileges: dict[str, Any] = field(default_factory=dict)
    external: bool = False

    @property
    def ports(self) -> tuple[Port, ...]:
        found: tuple[Port, ...] = self.plan.get("ports", ())
        return found

    def finished(self, image: Mapping[str, Any]) -> ServicePlan:
        return ServicePlan(image=image, aliases=tuple(self.aliases), **self.plan)


class TaskFiles:
    """The files of one task directory, by POSIX path relative to it. Nothing outside it is read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._real = Path(os.path.realpath(directory))

    def kind(self, path: str) -> str | None:
        """`file`, `directory` or None. Raises ComposeError for a link that leaves the task and for a link to a directory."""
        place = self.directory / path
        kind = kind_below(self._real, place)
        if kind == "outside":
            raise ComposeError(f"{path} is a link out of the task")
        if kind == "directory" and Path(os.path.realpath(place)) != self._real / path and path not in (".", ""):
            raise ComposeError(f"{path} is reached through a link to a directory")
        return kind

    def read(self, path: str, limit_bytes: int) -> str:
        """The text of a file. Raises ComposeError naming it."""
        try:
            with (self.directory / path).open("rb") as file:
                data = file.read(limit_bytes + 1)
        except OSError as error:
            raise ComposeError(f"{path} cannot be read: {error.strerror}") from None
        if len(data) > limit_bytes:
            raise ComposeError(f"{path} has more than {limit_bytes} bytes")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ComposeError(f"{path} is not UTF-8 (byte {error.start})") from None


@dataclass
class Reading:
    """One file being read.

    tables: its top-level volumes, networks, configs and secrets. named: configs and secrets that a service takes, with their table.
    env_files: that services take variables from. taken: by COPY and ADD of images; both relative to the task. privileged: whether
    privileges are planned.
    """

    files: TaskFiles
    variables: TaskVariables
    environment: EnvironmentTable
    findings: Findings
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    named: set[tuple[str, str]] = field(default_factory=set)
    env_files: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    privileged: bool = False
    executable: Callable[[Path], bool] | None = None
    budget: Budget = field(default_factory=Budget)

    def interpolated(self, service: str, tree: Mapping[str, Any], role: Role, *, dropped: bool = False) -> dict[str, Any]:
        """A service with every text interpolated; a value that cannot be is left out, and a problem.

        dropped: no rollout starts it, so that unset names may stand for nothing everywhere.
        """
        found: dict[str, Any] = {}
        for key, value in tree.items():
            rule = SUBSET.get(f"services.*.{key}")
            blank = dropped or key in BLANK_KEYS or key.startswith("x-") or (rule is not None and rule.verdict(role) == "ignored")
            use = Use(blank, budget=self.budget)
            problems = len(self.findings.problems)
            result = self._walk(value, (service, key), use)
            if use.unset and key == "environment" and not dropped:
                self.findings.note(f"{service}.{key}", f"{', '.join(sorted(set(use.unset)))} is not set and stands for nothing")
            if len(self.findings.problems) == problems:
                found[key] = result
        return found

    def table(self, name: str, tree: Any, *, ignored: bool = False) -> Any:
        """A top-level section, interpolated. ignored: it is read for what compose refuses in it alone."""
        return self._walk(tree, (name,), Use(ignored, budget=self.budget))

    def _walk(self, value: Any, place: tuple[str, ...], use: Use) -> Any:
        if isinstance(value, str):
            inner = Use(use.blank or place[1:3] == ("build", "args") or place[2:3] == ("labels",), use.unset, use.budget)
            try:
                return interpolate(value, self.variables, inner)
            except ComposeError as error:
                self.findings.problems.append(error if error.place else ComposeError(error.why, ".".join(place)))
                return ""
        if isinstance(value, dict):
            return {key: self._walk(item, (*place, key), use) for key, item in value.items()}
        if isinstance(value, list):
            return [self._walk(item, place, use) for item in value]
        return value


def admitted(value: Mapping[str, Any], prefix: str, place: str, role: Role, findings: Findings) -> Iterator[tuple[str, Any]]:
    """The keys of a mapping that are planned; the others become problems and notes as the subset says."""
    for key, item in value.items():
        if key.startswith("x-"):
            continue
        rule = SUBSET.get(f"{prefix}.{key}" if prefix else key)
        where = f"{place}.{key}" if place else key
        if rule is None:
            # To look for the nearest name costs more than all else, and a file may hold thousands.
            advice = _known_here(key, prefix) if len(findings.problems) < ADVISED_PROBLEMS else ""
            findings.problems.append(ComposeError(f"{UNKNOWN_KEY}{f' ({advice})' if advice else ''}", where))
            continue
        verdict = rule.verdict(role)
        if verdict == "refused":
            if not is_empty(item):
                advice = f" ({ADVICE})" if prefix.startswith("services.") else ""
                findings.problems.append(ComposeError(f"is not planned: {rule.meaning}{advice}", where))
        elif verdict == "noted":
            if not is_empty(item) and item != "no":
                findings.note(where, rule.meaning)
        elif verdict != "ignored":
            yield key, item


def _known_here(key: str, prefix: str) -> str:
    start = f"{prefix}." if prefix else ""
    known = {row.removeprefix(start) for row in SUBSET if row.startswith(start)}
    return nearest(key, {row for row in known if "." not in row and "[" not in row})


def task_path(path: str, base: str = BASE) -> str | None:
    """A path of the compose file, relative to the task; None where it leaves the task."""
    joined = posixpath.normpath(posixpath.join(base, path))
    return None if joined.startswith(("..", "/")) else joined


def context_subpath(text: Text) -> str | None:
    """The path below `environment/` that a text beginning with `${CONTEXT_DIR}` means; None for any other text."""
    if isinstance(text, str) or not isinstance(text[0], ContextPart) or len(text) > 2:
        return None
    if len(text) == 1:
        return "."
    rest = text[1]
    return rest.lstrip("/") or "." if isinstance(rest, str) and rest.startswith("/") else None
