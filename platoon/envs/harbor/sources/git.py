"""A directory of a git repository as a dataset: listed from trees alone, and only selected tasks are ever checked out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from platoon.config.text import printable
from platoon.envs.harbor.content import ListedTask, no_single_task
from platoon.envs.harbor.sources.git_command import GitError
from platoon.envs.harbor.sources.git_listing import DIRECTORY, PROGRAM, SUBMODULE, TreeEntry
from platoon.envs.harbor.sources.git_store import Checkout, GitStore, open_store
from platoon.envs.harbor.sources.listing import INDEX_LIMIT_BYTES, TASK_FILE, list_tree, outermost_tasks, read_index
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
    """The files of a commit below `path`; sizes are not known."""

    reference: str
    store: GitStore
    commit: str
    path: str

    @classmethod
    def of(cls, reference: str, store: GitStore, commit: str, path: str) -> CommitTree:
        """Raises ConfigError when the commit has no such directory."""
        entry = store.entry(commit, path) if path else None
        if path and (entry is None or entry.mode != DIRECTORY):
            raise ConfigError(Problem(f"commit {commit} has no directory {printable(path)}", file=reference))
        return cls(reference, store, commit, path)

    def read(self, path: str) -> bytes | None:
        entry = self.store.entry(self.commit, from_root(self.path, path))
        if entry is None or not entry.mode.startswith("100"):
            return None
        return self.store.read(entry.oid, INDEX_LIMIT_BYTES)

    def task_directories(self) -> Iterator[str]:
        start = len(self.path) + 1 if self.path else 0
        found = self.store.files_called(TASK_FILE, self.commit, self.path)
        return outermost_tasks(path[start:] for path in found)

    def own_name(self) -> str:
        name = self.path.rpartition("/")[2] if self.path else self.store.url.rstrip("/").rpartition("/")[2]
        return name.removesuffix(".git")


@dataclass(frozen=True)
class CommitTasks:
    """Tasks of a commit. wanted: each with its path from the root. reference: of the dataset, in messages."""

    reference: str
    store: GitStore
    commit: str
    wanted: Sequence[tuple[SourceTask, str]]

    def identify(self) -> list[SourceTask]:
        """The tasks with their files that the commit keeps as executable."""
        found: dict[str, set[str]] = {path: set() for _, path in self.wanted}

        def visit(entry: TreeEntry) -> None:
            for owner in _owners(entry.path):
                if owner in found:
                    found[owner].add(entry.path[len(owner) + 1 :] if owner else entry.path)

        self.store.entries(self.commit, found, visit, mode=PROGRAM)
        return [replace(task, programs=frozenset(found[path])) for task, path in self.wanted]

    def judge(self) -> dict[str, list[Problem]]:
        """What the trees tell against tasks, by id: one that is not there, and what git or a listing could not keep."""
        listed = {path: ListedTask(self._shown(task)) for task, path in self.wanted}
        with_file: set[str] = set()

        def visit(entry: TreeEntry) -> None:
            for owner in _owners(entry.path):
                if owner in listed:
                    path = entry.path[len(owner) + 1 :] if owner else entry.path
                    _add(listed[owner], entry, path)
                    if path == TASK_FILE:
                        with_file.add(owner)

        self.store.entries(self.commit, listed, visit)
        for task, path in self.wanted:
            if not listed[path].is_there:
                rule = f"commit {self.commit} of {self.store.url} has no directory {printable(path)}"
                file = task.named_by or self.reference
                listed[path].problems.append(Problem(rule, key=f"task {printable(task.id)}", file=file))
            if task.path == "." and path not in with_file:
                listed[path].problems.append(no_single_task(self.reference))
        return {task.id: listed[path].problems for task, path in self.wanted if listed[path].problems}

    def check_out(self) -> Iterator[Materialised]:
        """The files of tasks against which nothing is told. Raises ConfigError, GitError."""
        for start in range(0, len(self.wanted), BATCH_TASKS):
            batch = self.wanted[start : start + BATCH_TASKS]
            with self.store.checkout(self.commit, sorted({path for _, path in batch})) as checkout:
                for task, path in batch:
                    _fill_pointers(checkout, path, self._shown(task))
                    yield Materialised(task, checkout.tree / path)

    def _shown(self, task: SourceTask) -> str:
        return f"{self.reference}/{printable(task.id)}"


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
        tasks = list_tree(self.tree).tasks
        trees = self.tree.store.trees(self.tree.commit, {from_root(self.tree.path, task.path) for task in tasks})
        contents = {path: f"git-tree:{oid}" for path, oid in trees.items()}
        return [replace(task, content=contents.get(from_root(self.tree.path, task.path))) for task in tasks]

    def identify(self, tasks: Sequence[SourceTask]) -> Sequence[SourceTask]:
        return self._of(tasks).identify()

    def read_index(self, path: str) -> Any:
        return read_index(self.tree, path)

    def judge(self, tasks: Sequence[SourceTask]) -> Mapping[str, Sequence[Problem]]:
        return self._of(tasks).judge()

    def materialise(self, tasks: Sequence[SourceTask]) -> Iterator[Materialised]:
        yield from self._of(tasks).check_out()

    def _of(self, tasks: Sequence[SourceTask]) -> CommitTasks:
        wanted = [(task, from_root(self.tree.path, task.path)) for task in tasks]
        return CommitTasks(self.tree.reference, self.tree.store, self.tree.commit, wanted)


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


def _owners(path: str) -> Iterator[str]:
    """Every directory that a path lies in, the root as ""."""
    yield ""
    position = path.find("/")
    while position >= 0:
        yield path[:position]
        position = path.find("/", position + 1)


def _add(task: ListedTask, entry: TreeEntry, path: str) -> None:
    if entry.mode == SUBMODULE:
        task.tell(path, "a submodule is not followed", "put its files in its place")
    elif _CONTROL_DIRECTORY.search(entry.path):
        task.tell(path, "must stay outside .git")
    task.add(path)


def _fill_pointers(checkout: Checkout, path: str, shown: str) -> None:
    """Puts LFS files in the place of their pointers. Raises ConfigError when one stays: a task without its data."""
    if not (pointers := sorted(_pointers(checkout.tree, path))):
        return
    tracked = set(checkout.tracked_by_lfs(pointers))
    if loose := [pointer for pointer in pointers if pointer not in tracked]:
        rule = "is a pointer of git LFS, and no attribute of the commit gives it to LFS"
        raise _pointer_fault(rule, loose[0], path, shown, "add it to .gitattributes there, or commit the file itself")
    rule = "is a pointer to a file that git LFS did not give"
    advice = "install git-lfs if it is missing; if its server lacks the file, use the dataset's hf:// address where it has one"
    try:
        checkout.fill_pointers(pointers)
    except GitError as error:
        # git names the file that failed among others.
        failed = [pointer for pointer in pointers if pointer in error.stderr] or pointers
        raise _pointer_fault(f"{rule}: {error.reason}", max(failed, key=len), path, shown, advice) from error
    if left := sorted(_pointers(checkout.tree, path)):
        raise _pointer_fault(rule, left[0], path, shown, advice)


def _pointer_fault(rule: str, pointer: str, path: str, shown: str, advice: str) -> ConfigError:
    return ConfigError(Problem(rule, key=printable(pointer.removeprefix(f"{path}/")), file=shown, advice=advice))


def _pointers(tree: Path, path: str) -> Iterator[str]:
    for file in (tree / path).rglob("*"):
        if file.is_symlink() or not file.is_file() or file.stat().st_size > LFS_POINTER_LIMIT_BYTES:
            continue
        with file.open("rb") as opened:
            if opened.read(len(LFS_POINTER)) == LFS_POINTER:
                yield str(file.relative_to(tree))
