"""A dataset repository of Hugging Face, at a commit: listed once, and of each selected task only what its content hash covers.

Equal files are downloaded once, however many tasks have them. Every file is checked against the id that the listing gives it, and
what the listing tells against a task is told before anything of it is downloaded.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from platoon._native import is_ignored
from platoon.config.files import read_bytes
from platoon.config.text import printable
from platoon.envs.harbor.content import TASK_FILE, ListedTask, no_directory, no_single_task
from platoon.envs.harbor.format import DEFAULT_IGNORES, HASHED_DIRECTORIES, HASHED_FILES, IGNORE_FILE
from platoon.envs.harbor.sources.git import from_root
from platoon.envs.harbor.sources.hugging_face_client import RemoteFile, retrying
from platoon.envs.harbor.sources.hugging_face_repository import Downloads, Repository
from platoon.envs.harbor.sources.listing import list_tree, outermost_tasks, read_index
from platoon.envs.harbor.sources.places import make_directory, staging
from platoon.envs.harbor.sources.protocol import FetchTools, Materialised, Recorded, ReferenceSource, SourceTask
from platoon.envs.harbor.sources.reference import HuggingFaceReference, is_commit
from platoon.errors import Problem

FETCHED_WITH = "huggingface_hub"
# From so many selected tasks in one directory on, listing the directory costs less than listing each of them.
LIST_WHOLE_FROM = 64
IGNORE_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True)
class RepositoryTree:
    """The files of a repository below `path`."""

    reference: str
    repository: Repository
    path: str

    @cached_property
    def files(self) -> Mapping[str, RemoteFile]:
        """Every file by its path relative to the dataset."""
        start = len(self.path) + 1 if self.path else 0
        return {file.path[start:]: file for file in self.repository.files(self.path)}

    def read(self, path: str) -> bytes | None:
        return self.repository.read(from_root(self.path, path))

    def task_directories(self) -> Iterator[str]:
        return outermost_tasks(self.files)

    def own_name(self) -> str:
        return (self.path or self.repository.name).rpartition("/")[2]


@dataclass(frozen=True)
class HuggingFaceDataset:
    """A commit of a repository. By path of a task: what is listed of it, and of that what is wanted. _found: files by content."""

    tree: RepositoryTree
    revision: str | None
    _files: dict[str, list[RemoteFile]] = field(default_factory=dict)
    _wanted: dict[str, list[RemoteFile]] = field(default_factory=dict)
    _found: dict[str, Path] = field(default_factory=dict)

    @property
    def resolved(self) -> str:
        return self.tree.repository.commit

    @property
    def source(self) -> Mapping[str, Any]:
        repository = self.tree.repository
        return {
            "kind": "hf",
            "repo": repository.name,
            "revision": self.revision,
            "commit": repository.commit,
            "path": self.tree.path,
        }

    def list_tasks(self) -> list[SourceTask]:
        return list(list_tree(self.tree).tasks)

    def read_index(self, path: str) -> Any:
        return read_index(self.tree, path)

    def identify(self, tasks: Sequence[SourceTask]) -> list[SourceTask]:
        # Takes a listing of each, and no download.
        self._list(tasks)
        return [replace(task, content=_content(task, self._files[task.path])) for task in tasks]

    def judge(self, tasks: Sequence[SourceTask]) -> Mapping[str, Sequence[Problem]]:
        self._list(tasks)
        told = {task.id: problems for task in tasks if (problems := self._faults(task))}
        left = [task for task in tasks if task.id not in told]
        self._get_ignores(left)
        for task in left:
            self._wanted[task.path] = wanted = list(self._hashed(task))
            if problems := _judged(wanted, self._shown(task)):
                told[task.id] = problems
        return told

    def materialise(self, tasks: Sequence[SourceTask]) -> Iterator[Materialised]:
        tools = self.tree.repository.tools

        def wanted(number: int) -> Iterator[RemoteFile]:
            return (self._at_root(file, tasks[number]) for file in self._wanted[tasks[number].path])

        with staging(tools.cache) as place, asyncio.Runner() as runner:
            downloads = Downloads(self.tree.repository, wanted, len(tasks), self._found)
            for number, task in enumerate(tasks):
                tools.progress(f"downloading {self.tree.reference}: task {number + 1} of {len(tasks)}")
                runner.run(downloads.take(number))
                directory = place / str(number)
                for file in self._wanted[task.path]:
                    _put(self._found[file.content], directory / file.path)
                yield Materialised(task, directory)
                shutil.rmtree(directory)

    def _list(self, tasks: Sequence[SourceTask]) -> None:
        wanted = [task for task in tasks if task.path not in self._files]
        parents: dict[str, list[SourceTask]] = {}
        for task in wanted:
            parents.setdefault(task.path.rpartition("/")[0], []).append(task)
        listed_all = "files" in vars(self.tree)
        for parent, members in parents.items():
            if listed_all or len(members) >= LIST_WHOLE_FROM or members[0].path == ".":
                self._list_below(parent, members, listed_all)
            else:
                for task in members:
                    path = from_root(self.tree.path, task.path)
                    self._files[task.path] = [_below(file, path) for file in self.tree.repository.files(path)]

    def _list_below(self, parent: str, members: Sequence[SourceTask], listed_all: bool) -> None:
        root = from_root(self.tree.path, parent or ".")
        files = list(self.tree.files.values()) if listed_all else self.tree.repository.files(root)
        found: dict[str, list[RemoteFile]] = {from_root(self.tree.path, task.path): [] for task in members}
        for file in files:
            for end in _ends(file.path):
                if file.path[:end] in found:
                    found[file.path[:end]].append(_below(file, file.path[:end]))
        for task in members:
            self._files[task.path] = found[from_root(self.tree.path, task.path)]

    def _faults(self, task: SourceTask) -> list[Problem]:
        """What the listing tells against a task whichever of its files are wanted."""
        files = self._files[task.path]
        if not files:
            root = from_root(self.tree.path, task.path)
            rule = f"the repository has no directory {printable(root)}"
            return [Problem(rule, key=f"task {printable(task.id)}", file=task.named_by or self.tree.reference)]
        if task.path == "." and not any(file.path == TASK_FILE for file in files):
            return [no_single_task(self._shown(task))]
        listed = ListedTask(self._shown(task))
        for file in files:
            if file.path == IGNORE_FILE and file.size_bytes > IGNORE_LIMIT_BYTES:
                listed.tell(file.path, f"has {file.size_bytes} bytes, more than {IGNORE_LIMIT_BYTES}")
            if file.path in HASHED_DIRECTORIES:
                listed.problems.append(no_directory(file.path, listed.shown_as))
            listed.check_name(file.path)
        return listed.problems

    def _get_ignores(self, tasks: Sequence[SourceTask]) -> None:
        """The ignore files of tasks say which other files are wanted."""
        files = [self._at_root(file, task) for task in tasks for file in self._files[task.path] if file.path == IGNORE_FILE]

        async def download() -> None:
            await Downloads(self.tree.repository, lambda number: files, 1, self._found).take(0)

        if files:
            asyncio.run(download())

    def _hashed(self, task: SourceTask) -> Iterator[RemoteFile]:
        """The files of a task that its content hash covers, and the ignore file that says which."""
        ignore_text = DEFAULT_IGNORES
        for file in self._files[task.path]:
            if file.path == IGNORE_FILE:
                shown = f"{self._shown(task)}/{IGNORE_FILE}"
                data = read_bytes(self._found[file.content], limit_bytes=IGNORE_LIMIT_BYTES, shown_as=shown)
                ignore_text = data.decode("utf-8", "replace")
        for file in self._files[task.path]:
            top, slash, _ = file.path.partition("/")
            hashed = top in HASHED_DIRECTORIES if slash else top in HASHED_FILES
            if file.path == IGNORE_FILE or (hashed and not is_ignored(ignore_text, file.path)):
                yield file

    def _at_root(self, file: RemoteFile, task: SourceTask) -> RemoteFile:
        """A file of a task by its path from the root of the repository."""
        return replace(file, path=from_root(from_root(self.tree.path, task.path), file.path))

    def _shown(self, task: SourceTask) -> str:
        return f"{self.tree.reference}/{printable(task.id)}"


@dataclass(frozen=True)
class HuggingFaceSource(ReferenceSource[HuggingFaceReference]):
    """A revision of a dataset repository."""

    fetched_with: str = FETCHED_WITH

    @contextmanager
    def resolve(self, tools: FetchTools, recorded: Recorded | None = None) -> Iterator[HuggingFaceDataset]:
        client = tools.hugging_face()
        parsed = self.parsed
        if recorded is not None and is_commit(recorded.resolved):
            commit = recorded.resolved
        elif parsed.pinned and parsed.revision is not None:
            commit = parsed.revision
        else:
            commit = retrying(
                lambda: client.commit_of(parsed.repository, parsed.revision),
                self.reference,
                sleep=tools.sleep,
                jitter=tools.jitter,
                say=tools.say,
            )
        tree = RepositoryTree(self.reference, Repository(parsed.repository, commit, client, tools), parsed.path)
        yield HuggingFaceDataset(tree, parsed.revision)


def _content(task: SourceTask, files: Sequence[RemoteFile]) -> str:
    text = "".join(f"{file.path}\0{file.content}\n" for file in sorted(files, key=lambda file: file.path))
    return f"hf-files:{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()}"


def _below(file: RemoteFile, directory: str) -> RemoteFile:
    return replace(file, path=file.path[len(directory) + 1 :]) if directory else file


def _ends(path: str) -> Iterator[int]:
    """Where each directory of a path ends, the root's end being 0."""
    yield 0
    yield from (position for position, character in enumerate(path) if character == "/")


def _judged(files: Sequence[RemoteFile], shown_as: str) -> list[Problem]:
    listed = ListedTask(shown_as)
    directories: set[str] = set()
    for file in files:
        for end in _ends(file.path):
            if end and file.path[:end] not in directories:
                directories.add(file.path[:end])
                listed.add(file.path[:end])
        listed.add(file.path, file.size_bytes)
    return listed.problems


def _put(found: Path, target: Path) -> None:
    """Another name for a download, or a copy of it: staged files are read, and a task of the cache never is one of them."""
    make_directory(target.parent)
    try:
        os.link(os.path.realpath(found), target)
    except OSError:
        # Another disk, or one without links.
        shutil.copyfile(found, target)
