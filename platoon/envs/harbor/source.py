"""Where a dataset's tasks come from: list them, then bring the selected ones to this machine.

A source knows ids and where each task is; selection, hashing and the lock are the same for all. The directory source is the one
that is served; it is always pinned, and read again at each fetch because files may change.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from platoon.config.files import read_text
from platoon.config.text import printable
from platoon.envs.harbor.content import is_plain_name
from platoon.envs.harbor.format import TaskRefused, read_toml
from platoon.errors import ConfigError, Problem

INDEX_LIMIT_BYTES = 64 * 1024 * 1024
TASK_LIMIT = 1_000_000
SKIPPED_DIRECTORIES = frozenset({"__pycache__"})


@dataclass(frozen=True)
class SourceTask:
    """A task before it is fetched. path: relative to the dataset, POSIX, "." for a dataset that is one task."""

    id: str
    path: str
    index: Mapping[str, Any] = field(default_factory=dict)


class Source(Protocol):
    """Anything a dataset reference may name."""

    @property
    def reference(self) -> str: ...

    @property
    def pinned(self) -> bool: ...

    @property
    def fetched_with(self) -> str: ...

    def describe(self) -> dict[str, Any]:
        """How it resolved, for the lock: no host value, no machine path."""
        ...

    def list_tasks(self) -> list[SourceTask]:
        """Every task in order of id. Raises ConfigError."""
        ...

    def materialise(self, task: SourceTask) -> Path:
        """A directory with the task's files. Raises ConfigError."""
        ...

    def read_index(self, path: str) -> Any:
        """The JSON value, or the rows, of an index file of the dataset. Raises ConfigError."""
        ...


@dataclass(frozen=True)
class DirectorySource:
    """A local directory. reference: as the configuration writes it; root: where that is."""

    reference: str
    root: Path
    pinned: bool = True
    fetched_with: str = "platoon (local directory)"

    def describe(self) -> dict[str, Any]:
        return {"kind": "directory"}

    def list_tasks(self) -> list[SourceTask]:
        if not self.root.is_dir():
            raise self._problem("no such directory", advice="a dataset is relative to the configuration file that names it")
        if (self.root / "task.toml").is_file():
            return [SourceTask(self._single_id(), ".")]
        listed = self._from_registry()
        index = self._task_index()
        if listed is None and index:
            listed = {name: str(fields.get("task_path", name)) for name, fields in index.items()}
        if listed is None:
            listed = self._scan()
        if not listed:
            raise self._problem("holds no task", advice="a task is a directory with a task.toml")
        tasks = []
        for name, path in sorted(listed.items()):
            self._check_path(name, path)
            fields = {key: value for key, value in index.get(name, {}).items() if key != "task_path"}
            tasks.append(SourceTask(name, path, fields))
        return tasks

    def materialise(self, task: SourceTask) -> Path:
        path = self.root / task.path
        # A task directory that is itself a link may lead anywhere; its own files are judged by `content.tree_problems`.
        if path.is_symlink():
            raise self._problem(f"task {printable(task.id)} is a link", advice="put the directory in its place")
        if not path.is_dir():
            raise self._problem(f"task {printable(task.id)}: {task.path} is no directory")
        return path

    def read_index(self, path: str) -> Any:
        self._check_path(path, path)
        file = self.root / path
        text = read_text(file, limit_bytes=INDEX_LIMIT_BYTES, shown_as=self._shown(path))
        if file.suffix == ".jsonl":
            return [self._parse(line, f"{path}:{number}") for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        return self._parse(text, path)

    def _single_id(self) -> str:
        try:
            name = read_toml(self.root).task.name
        except TaskRefused:
            name = None
        return name or self.root.absolute().name

    def _from_registry(self) -> dict[str, str] | None:
        if not (self.root / "registry.json").is_file():
            return None
        value = self.read_index("registry.json")
        datasets = [value] if isinstance(value, dict) else value
        listed: dict[str, str] = {}
        for dataset in datasets if isinstance(datasets, list) else [None]:
            tasks = dataset.get("tasks") if isinstance(dataset, dict) else None
            if not isinstance(tasks, list):
                raise self._problem("must list datasets with their tasks", key="registry.json")
            for task in tasks:
                if not isinstance(task, dict) or not isinstance(task.get("name"), str) or not isinstance(task.get("path"), str):
                    raise self._problem("a task has a name and a path", key="registry.json")
                if task.get("git_url"):
                    raise self._problem(f"task {printable(task['name'])} is not in this directory (git_url)", key="registry.json")
                if task["name"] in listed:
                    raise self._problem(f"two tasks are called {printable(task['name'])}", key="registry.json")
                listed[task["name"]] = task["path"]
        return listed

    def _task_index(self) -> dict[str, dict[str, Any]]:
        if not (self.root / "task-index.json").is_file():
            return {}
        value = self.read_index("task-index.json")
        if not isinstance(value, dict) or not all(isinstance(fields, dict) for fields in value.values()):
            raise self._problem("must map task ids to their fields", key="task-index.json")
        return value

    def _scan(self) -> dict[str, str]:
        found: dict[str, str] = {}
        pending = [""]
        while pending:
            relative = pending.pop()
            with os.scandir(self.root / relative) as entries:
                directories = [
                    entry for entry in entries if not entry.name.startswith(".") and entry.name not in SKIPPED_DIRECTORIES
                ]
            for entry in directories:
                path = f"{relative}/{entry.name}" if relative else entry.name
                if not entry.is_dir():
                    continue
                if entry.is_symlink():
                    raise self._problem(
                        "a link to a directory is not followed", key=printable(path), advice="put the directory in its place"
                    )
                if Path(entry.path, "task.toml").is_file():
                    found[path] = path
                else:
                    pending.append(path)
                if len(found) > TASK_LIMIT:
                    raise self._problem(f"holds more than {TASK_LIMIT} tasks")
        return found

    def _check_path(self, name: str, path: str) -> None:
        if not name or not is_plain_name(name) or not is_plain_name(path):
            raise self._problem("a task's id and path are UTF-8 on one line", key=printable(path), advice="rename it")
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts:
            raise self._problem("must stay inside the dataset", key=printable(path))

    def _parse(self, text: str, place: str) -> Any:
        try:
            return json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise self._problem(f"is not JSON: {str(error)[:200]}", key=place) from None

    def _shown(self, path: str) -> str:
        return f"{self.reference}/{path}"

    def _problem(self, rule: str, key: str = "", advice: str = "") -> ConfigError:
        return ConfigError(Problem(rule, key=key, file=self.reference, advice=advice))


def open_source(reference: str, base: Path) -> Source:
    """The source of a dataset reference; relative paths are relative to `base`."""
    return DirectorySource(reference, base / Path(reference).expanduser())


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
