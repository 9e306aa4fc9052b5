"""A local directory as a dataset: pinned by decree, and read at each fetch because its files may change.

A cache, such as the site's own, is no part of it. A task directory that is itself a link may lead anywhere, so none is followed;
the files of a task are judged by `content.tree_problems`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platoon.config.files import read_bytes
from platoon.config.text import printable
from platoon.envs.harbor.content import no_single_task
from platoon.envs.harbor.sources.listing import (
    INDEX_LIMIT_BYTES,
    SKIPPED_DIRECTORIES,
    TASK_FILE,
    fault,
    is_task_file,
    list_tree,
    read_index,
)
from platoon.envs.harbor.sources.protocol import FetchTools, Materialised, Recorded, SourceTask
from platoon.errors import ConfigError, Problem
from platoon.host.trees import CACHE_TAG, is_file

FETCHED_WITH = "platoon (local directory)"


@dataclass(frozen=True)
class DirectoryTree:
    """The files below `root`; reference: what the configuration calls it."""

    reference: str
    root: Path

    def read(self, path: str) -> bytes | None:
        file = self.root / path
        try:
            file.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise fault(self, f"cannot be read: {error.strerror}", key=printable(path)) from None
        if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(self.root)):
            raise ConfigError(Problem("is a link that leaves the dataset", file=f"{self.reference}/{path}"))
        return read_bytes(file, limit_bytes=INDEX_LIMIT_BYTES, shown_as=f"{self.reference}/{path}")

    def task_directories(self) -> Iterator[str]:
        pending = [""]
        while pending:
            relative = pending.pop()
            path = relative
            try:
                with os.scandir(self.root / relative) as scanned:
                    entries = [item for item in scanned if item.name not in SKIPPED_DIRECTORIES and not item.name.startswith(".")]
                if relative and any(is_task_file(entry.name) for entry in entries):
                    yield relative
                    continue
                if relative and any(entry.name == CACHE_TAG for entry in entries):
                    continue
                for entry in entries:
                    path = f"{relative}/{entry.name}" if relative else entry.name
                    # It follows a link, which may lead nowhere that can be told.
                    if entry.is_dir():
                        if entry.is_symlink():
                            advice = "put the directory in its place"
                            raise fault(self, "a link to a directory is not followed", key=printable(path), advice=advice)
                        pending.append(path)
            except OSError as error:
                raise fault(self, f"cannot be read: {error.strerror}", key=printable(path)) from None

    def own_name(self) -> str:
        return Path(os.path.normpath(self.root.absolute())).name


@dataclass(frozen=True)
class DirectoryDataset:
    """A directory that is there. source: {"kind": "directory"}, or what made it."""

    tree: DirectoryTree
    source: Mapping[str, Any] = field(default_factory=lambda: {"kind": "directory"})
    resolved: str | None = None

    def list_tasks(self) -> list[SourceTask]:
        if not self.tree.root.is_dir():
            advice = "a dataset is relative to the configuration file that names it"
            raise fault(self.tree, "no such directory", advice=advice)
        return list(list_tree(self.tree).tasks)

    def identify(self, tasks: Sequence[SourceTask]) -> Sequence[SourceTask]:
        return tasks

    def read_index(self, path: str) -> Any:
        return read_index(self.tree, path)

    def judge(self, tasks: Sequence[SourceTask]) -> Mapping[str, Sequence[Problem]]:
        is_task = is_file(self.tree.root / TASK_FILE)
        return {task.id: [no_single_task(self.tree.reference)] for task in tasks if task.path == "." and not is_task}

    def materialise(self, tasks: Sequence[SourceTask]) -> Iterator[Materialised]:
        for task in tasks:
            yield Materialised(task, self.directory(task))

    def directory(self, task: SourceTask) -> Path:
        """Where a task lies. Raises ConfigError for a link anywhere below the dataset, and for what is no directory."""
        path = self.root
        mode = stat.S_IFDIR
        for part in () if task.path == "." else task.path.split("/"):
            path = f"{path}/{part}"
            try:
                mode = os.lstat(path).st_mode
            except OSError:
                mode = 0
            if stat.S_ISLNK(mode):
                raise fault(self.tree, f"task {printable(task.id)} is a link", advice="put the directory in its place")
        if not stat.S_ISDIR(mode):
            rule = f"{printable(task.path)} is no directory of the dataset"
            raise ConfigError(Problem(rule, key=f"task {printable(task.id)}", file=task.named_by or self.tree.reference))
        return Path(path)

    @property
    def root(self) -> str:
        return str(self.tree.root)


@dataclass(frozen=True)
class DirectorySource:
    """reference: as the configuration writes it; root: where that is."""

    reference: str
    root: Path
    pinned: bool = True
    is_local: bool = True
    fetched_with: str = FETCHED_WITH

    def inputs(self) -> Mapping[str, Any]:
        return {}

    @property
    def dataset(self) -> DirectoryDataset:
        return DirectoryDataset(DirectoryTree(self.reference, self.root))

    @contextmanager
    def resolve(self, tools: FetchTools, recorded: Recorded | None = None) -> Iterator[DirectoryDataset]:
        yield self.dataset
