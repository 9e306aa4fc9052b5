"""A directory of a git repository as a dataset: listed from trees alone, and only selected tasks are ever checked out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from platoon.config.text import printable
from platoon.envs.harbor.content import is_plain_name
from platoon.envs.harbor.sources.git_command import GitError
from platoon.envs.harbor.sources.git_store import PROGRAM, SUBMODULE, Checkout, GitStore, TreeEntry, open_store
from platoon.envs.harbor.sources.listing import (
    INDEX_LIMIT_BYTES,
    SKIPPED_DIRECTORIES,
    TASK_FILE,
    list_tree,
    read_index,
    with_content,
)
from platoon.envs.harbor.sources.protocol import FetchTools, Materialised, Recorded, ReferenceSource, SourceTask
from platoon.envs.harbor.sources.reference import GitReference, is_commit
from platoon.errors import ConfigError, Problem

FETCHED_WITH = "git"
# Tasks a checkout: what one of them brought is kept when a later one is interrupted.
BATCH_TASKS = 256
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1"
LFS_POINTER_LIMIT_BYTES = 1024
_CONTROL_DIRECTORY = re.compile(r"(?:^|/)\.git(?:/|$)", re.IGNORECASE)


@dataclass(frozen=True)
class CommitTree:
    """The files of a commit below `path`. entries: by path relative to it; sizes are not known."""

    reference: str
    store: GitStore
    commit: str
    path: str
    entries: Mapping[str, TreeEntry]

    @classmethod
    def of(cls, reference: str, store: GitStore, commit: str, path: str) -> CommitTree:
        """Raises ConfigError when the commit has no such directory."""
        prefix = f"{path}/" if path else ""
        entries = {entry.path.removeprefix(prefix): entry for entry in store.entries(commit, path)}
        if not entries:
            raise ConfigError(Problem(f"commit {commit} has no directory {printable(path) or '/'}", file=reference))
        return cls(reference, store, commit, path, entries)

    def read(self, path: str) -> bytes | None:
        entry = self.entries.get(path)
        if entry is None or not entry.mode.startswith("100"):
            return None
        return self.store.read(entry.oid, INDEX_LIMIT_BYTES)

    def task_directories(self) -> Iterator[str]:
        found = {path.removesuffix(f"/{TASK_FILE}") for path in self.entries if path.endswith(f"/{TASK_FILE}")}
        for directory in found:
            parts = directory.split("/")
            hidden = any(part.startswith(".") or part in SKIPPED_DIRECTORIES for part in parts)
            inside = any("/".join(parts[:depth]) in found for depth in range(1, len(parts)))
            if not hidden and not inside:
                yield directory

    def own_name(self) -> str:
        name = self.path.rpartition("/")[2] if self.path else self.store.url.rstrip("/").rpartition("/")[2]
        return name.removesuffix(".git")


@dataclass(frozen=True)
class TaskFiles:
    """What a commit holds of tasks, by their paths from the root of the repository. Raises ConfigError for what is no task's."""

    reference: str
    by_task: Mapping[str, Sequence[TreeEntry]]

    @classmethod
    def of(cls, reference: str, entries: Iterable[TreeEntry], paths: Sequence[str]) -> TaskFiles:
        by_task: dict[str, list[TreeEntry]] = {path: [] for path in paths}
        for entry in entries:
            for owner in _owners(entry.path):
                if owner in by_task:
                    by_task[owner].append(entry)
        return cls(reference, by_task)

    def check(self, path: str, shown: str) -> None:
        """Raises ConfigError for a task that is not there, and for names that git or a listing could not keep."""
        if not self.by_task[path]:
            raise ConfigError(Problem(f"the commit has no task directory {printable(path)}", file=self.reference))
        for entry in self.by_task[path]:
            key = printable(entry.path.removeprefix(f"{path}/"))
            if entry.mode == SUBMODULE:
                raise ConfigError(Problem("a submodule is not followed", key=key, file=shown, advice="put its files in its place"))
            if not is_plain_name(entry.path):
                raise ConfigError(Problem("a name is UTF-8 on one line", key=key, file=shown, advice="rename it"))
            if ".." in entry.path.split("/") or _CONTROL_DIRECTORY.search(entry.path):
                raise ConfigError(Problem("must stay inside the task and outside .git", key=key, file=shown))


@dataclass(frozen=True)
class GitDataset:
    """A commit that the store holds."""

    tree: CommitTree
    ref: str | None
    url: str
    progress: Callable[[str], None]
    resolved: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "resolved", self.tree.commit)

    @property
    def source(self) -> Mapping[str, Any]:
        return {"kind": "git", "repo": self.url, "ref": self.ref, "commit": self.tree.commit, "path": self.tree.path}

    def list_tasks(self) -> list[SourceTask]:
        trees = self.tree.store.trees(self.tree.commit, self.tree.path)
        prefix = f"{self.tree.path}/" if self.tree.path else ""
        contents = {(path.removeprefix(prefix) or "."): f"git-tree:{oid}" for path, oid in trees.items()}
        return with_content(list_tree(self.tree).tasks, contents)

    def identify(self, tasks: Sequence[SourceTask]) -> Sequence[SourceTask]:
        return with_programs(tasks, [from_root(self.tree.path, task.path) for task in tasks], self.tree.entries.values())

    def read_index(self, path: str) -> Any:
        return read_index(self.tree, path)

    def materialise(self, tasks: Sequence[SourceTask]) -> Iterator[Materialised]:
        wanted = [(task, from_root(self.tree.path, task.path)) for task in tasks]
        yield from check_out(self.tree.store, self.tree.commit, self.tree.entries.values(), wanted, self.tree.reference)


@dataclass(frozen=True)
class GitSource(ReferenceSource[GitReference]):
    """A branch, tag or commit of a repository."""

    fetched_with: str = FETCHED_WITH

    @contextmanager
    def resolve(self, tools: FetchTools, recorded: Recorded | None = None) -> Iterator[GitDataset]:
        parsed = self.parsed
        known = recorded.resolved if recorded is not None and is_commit(recorded.resolved) else None
        with open_store(parsed.url, tools, commit=known or parsed.ref) as store:
            commit = known or store.commit_of(parsed.ref)
            store.fetch(commit)
            tree = CommitTree.of(self.reference, store, commit, parsed.path)
            yield GitDataset(tree, parsed.ref, parsed.url, tools.progress)


def from_root(dataset: str, task: str) -> str:
    """The path of a task from the root of the repository, "" for the root."""
    if task == ".":
        return dataset
    return f"{dataset}/{task}" if dataset else task


def check_out(
    store: GitStore, commit: str, entries: Iterable[TreeEntry], wanted: Sequence[tuple[SourceTask, str]], reference: str
) -> Iterator[Materialised]:
    """The files of tasks of one commit; wanted: each with its path from the root. Raises ConfigError, GitError."""
    files = TaskFiles.of(reference, entries, [path for _, path in wanted])
    for start in range(0, len(wanted), BATCH_TASKS):
        batch = wanted[start : start + BATCH_TASKS]
        for task, path in batch:
            files.check(path, f"{reference}/{printable(task.id)}")
        with store.checkout(commit, sorted({path for _, path in batch})) as checkout:
            for task, path in batch:
                _fill_pointers(checkout, path, f"{reference}/{printable(task.id)}")
                yield Materialised(task, checkout.tree / path)


def with_programs(tasks: Sequence[SourceTask], paths: Sequence[str], entries: Iterable[TreeEntry]) -> list[SourceTask]:
    """Tasks with their files that a commit keeps as executable; paths: of the tasks, from the root."""
    found: dict[str, set[str]] = {path: set() for path in paths}
    for entry in entries:
        if entry.mode == PROGRAM:
            for owner in _owners(entry.path):
                if owner in found:
                    found[owner].add(entry.path[len(owner) + 1 :] if owner else entry.path)
    return [replace(task, programs=frozenset(found[path])) for task, path in zip(tasks, paths, strict=True)]


def _owners(path: str) -> Iterator[str]:
    """Every directory that a path lies in, the root as ""."""
    yield ""
    for position, character in enumerate(path):
        if character == "/":
            yield path[:position]


def _fill_pointers(checkout: Checkout, path: str, shown: str) -> None:
    """Puts LFS files in the place of their pointers. Raises ConfigError when one stays."""
    if not (pointers := list(_pointers(checkout.tree, path))):
        return
    try:
        checkout.pull_lfs(pointers)
    except GitError as error:
        raise _pointer_fault(pointers, path, shown) from error
    if left := list(_pointers(checkout.tree, path)):
        raise _pointer_fault(left, path, shown)


def _pointer_fault(pointers: Sequence[str], path: str, shown: str) -> ConfigError:
    key = printable(pointers[0].removeprefix(f"{path}/"))
    advice = "install git-lfs, or use the dataset's hf:// address where it has one"
    return ConfigError(Problem("is a pointer to a file that git LFS did not give", key=key, file=shown, advice=advice))


def _pointers(tree: Path, path: str) -> Iterator[str]:
    for file in (tree / path).rglob("*"):
        if file.is_symlink() or not file.is_file() or file.stat().st_size > LFS_POINTER_LIMIT_BYTES:
            continue
        with file.open("rb") as opened:
            if opened.read(len(LFS_POINTER)) == LFS_POINTER:
                yield str(file.relative_to(tree))
