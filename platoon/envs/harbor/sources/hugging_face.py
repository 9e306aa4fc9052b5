"""A dataset repository of Hugging Face, at a commit: listed once, and of each selected task only what its content hash covers.

Equal files are downloaded once, however many tasks have them. Every file is checked against the id that the listing gives it.
Listings are kept by commit, downloads in the library's own cache below the site's.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from platoon._native import is_ignored
from platoon.artifacts.digests import git_blob_sha1, hex_of, sha256_file
from platoon.artifacts.publish import WRITABLE, publish_bytes
from platoon.artifacts.reading import parse_json, read_regular
from platoon.config.files import read_bytes
from platoon.config.text import counted, printable
from platoon.envs.harbor.content import is_plain_name
from platoon.envs.harbor.format import DEFAULT_IGNORES, HASHED_DIRECTORIES, HASHED_FILES
from platoon.envs.harbor.sources.git import from_root
from platoon.envs.harbor.sources.hugging_face_client import Absent, HuggingFaceClient, RemoteFile, retrying
from platoon.envs.harbor.sources.listing import INDEX_LIMIT_BYTES, SKIPPED_DIRECTORIES, TASK_FILE, list_tree, read_index
from platoon.envs.harbor.sources.places import make_directory, staging
from platoon.envs.harbor.sources.protocol import FetchTools, Materialised, Recorded, ReferenceSource, SourceTask
from platoon.envs.harbor.sources.reference import HuggingFaceReference, is_commit
from platoon.errors import ConfigError, PlatoonError, Problem
from platoon.host.threads import in_daemon_thread

T = TypeVar("T")

FETCHED_WITH = "huggingface_hub"
# From so many selected tasks in one directory on, listing the directory costs less than listing each of them.
LIST_WHOLE_FROM = 64
COPY_BYTES = 1 << 20


@dataclass(frozen=True)
class Repository:
    """A repository at a commit, with what of it the cache has."""

    name: str
    commit: str
    client: HuggingFaceClient
    tools: FetchTools

    @property
    def shown(self) -> str:
        return f"hf://{self.name}@{self.commit}"

    def files(self, path: str) -> list[RemoteFile]:
        """Every file below a directory, [] where there is none. Raises ConfigError, PlatoonError."""
        kept = self._kept(path, "json")
        if not self.tools.repair and (listed := _read_listing(kept)) is not None:
            return listed

        def listing() -> list[RemoteFile]:
            found = []
            for number, file in enumerate(self.client.files(self.name, self.commit, path)):
                if number % 1000 == 0:
                    self.tools.progress(f"listing {self.shown}: {counted(number, 'file')}")
                found.append(file)
            return found

        try:
            listed = self._retrying(listing, f"{self.shown}#{path}")
        except Absent:
            listed = []
        make_directory(kept.parent)
        rows = [[file.path, file.size_bytes, file.content] for file in listed]
        publish_bytes(kept, json.dumps(rows, separators=(",", ":")).encode(), WRITABLE)
        return listed

    def read(self, path: str) -> bytes | None:
        """A file that is small enough to read whole, None where there is none. Raises ConfigError, PlatoonError."""
        absent = self._kept(path, "absent")
        if absent.exists() and not self.tools.repair:
            return None
        try:
            file = self._download(path, anew=False)
        except Absent:
            make_directory(absent.parent)
            absent.touch()
            return None
        return read_bytes(file, limit_bytes=INDEX_LIMIT_BYTES, shown_as=f"{self.shown}#{path}")

    def get(self, file: RemoteFile) -> Path:
        """A file whose bytes are those of its id; one that differs is downloaded once more. Raises PlatoonError."""
        for anew in (self.tools.repair, True):
            try:
                found = self._download(file.path, anew=anew)
            except Absent:
                raise PlatoonError(f"{self.shown}#{printable(file.path)}: is listed and not there") from None
            if _has_content(found, file):
                return found
        raise PlatoonError(f"{self.shown}#{printable(file.path)}: what was downloaded is not {file.content}")

    async def get_all(self, files: Sequence[RemoteFile]) -> list[Path]:
        """Several files, some at a time, in threads that an interrupted fetch need not wait for. Raises as `get` does."""
        permits = asyncio.Semaphore(self.tools.workers)

        async def one(file: RemoteFile) -> Path:
            async with permits:
                return await in_daemon_thread(lambda: self.get(file))

        return list(await asyncio.gather(*map(one, files)))

    def _kept(self, path: str, kind: str) -> Path:
        """What is known of a path at this commit, which never changes."""
        key = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return self.tools.cache.root / "hf-listings" / self.name.replace("/", "--") / self.commit / f"{key}.{kind}"

    def _download(self, path: str, *, anew: bool) -> Path:
        cache = self.tools.cache.root / "hf"
        make_directory(cache)
        return self._retrying(
            lambda: self.client.download(self.name, self.commit, path, cache, anew=anew), f"{self.shown}#{printable(path)}"
        )

    def _retrying(self, call: Callable[[], T], shown_as: str) -> T:
        tools = self.tools
        return retrying(call, shown_as, sleep=tools.sleep, jitter=tools.jitter, say=tools.say)


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
        found = {path.removesuffix(f"/{TASK_FILE}") for path in self.files if path.endswith(f"/{TASK_FILE}")}
        for directory in found:
            parts = directory.split("/")
            hidden = any(part.startswith(".") or part in SKIPPED_DIRECTORIES for part in parts)
            if not hidden and not any("/".join(parts[:depth]) in found for depth in range(1, len(parts))):
                yield directory

    def own_name(self) -> str:
        return (self.path or self.repository.name).rpartition("/")[2]


@dataclass(frozen=True)
class HuggingFaceDataset:
    """A commit of a repository."""

    tree: RepositoryTree
    revision: str | None
    _files: dict[str, list[RemoteFile]] = field(default_factory=dict)

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
        return {}

    def materialise(self, tasks: Sequence[SourceTask]) -> Iterator[Materialised]:
        repository = self.tree.repository
        self._list(tasks)
        with staging(repository.tools.cache) as place, asyncio.Runner() as runner:
            for number, task in enumerate(tasks):
                directory = place / str(number)
                self._fill(directory, task, runner)
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

    def _fill(self, directory: Path, task: SourceTask, runner: asyncio.Runner) -> None:
        root = from_root(self.tree.path, task.path)
        shown = f"{self.tree.reference}/{printable(task.id)}"
        if not self._files[task.path]:
            raise ConfigError(Problem(f"the repository has no task directory {printable(root)}", file=shown))
        wanted = list(self._wanted(task, shown))
        make_directory(directory)
        # What is equal is downloaded once.
        by_content: dict[str, RemoteFile] = {}
        for file in wanted:
            by_content.setdefault(file.content, replace(file, path=f"{root}/{file.path}" if root else file.path))
        self.tree.repository.tools.progress(f"downloading {shown}")
        found = dict(zip(by_content, runner.run(self.tree.repository.get_all(list(by_content.values()))), strict=True))
        for file in wanted:
            target = directory / file.path
            make_directory(target.parent)
            shutil.copyfile(found[file.content], target)

    def _wanted(self, task: SourceTask, shown: str) -> Iterator[RemoteFile]:
        """The files of a task that its content hash covers, and the ignore file that says which."""
        ignore_text = DEFAULT_IGNORES
        files = self._files[task.path]
        for file in files:
            if not is_plain_name(file.path) or ".." in file.path.split("/") or file.path.startswith("/"):
                raise ConfigError(
                    Problem("a name is UTF-8 on one line and stays inside the task", key=printable(file.path), file=shown)
                )
            if file.path == ".gitignore":
                path = from_root(self.tree.path, task.path)
                ignore = self.tree.repository.get(replace(file, path=f"{path}/.gitignore" if path else ".gitignore"))
                ignore_text = read_bytes(ignore, limit_bytes=COPY_BYTES, shown_as=f"{shown}/.gitignore").decode("utf-8", "replace")
        for file in files:
            top, slash, _ = file.path.partition("/")
            hashed = top in HASHED_DIRECTORIES if slash else top in HASHED_FILES
            if file.path == ".gitignore" or (hashed and not is_ignored(ignore_text, file.path)):
                yield file


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


def _has_content(path: Path, file: RemoteFile) -> bool:
    kind, _, wanted = file.content.partition(":")
    return (hex_of(sha256_file(path)) if kind == "lfs" else git_blob_sha1(path)) == wanted


def _read_listing(path: Path) -> list[RemoteFile] | None:
    try:
        return [RemoteFile(str(row[0]), int(row[1]), str(row[2])) for row in parse_json(read_regular(path))]
    except (OSError, ValueError, TypeError, IndexError):
        return None
