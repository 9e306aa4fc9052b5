"""A dataset repository of Hugging Face at a commit: what it lists, and its files by content, each downloaded once and checked.

Listings are kept by commit, downloads in the library's own cache below the site's.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from platoon.artifacts.digests import git_blob_sha1, hex_of, sha256_file
from platoon.artifacts.publish import WRITABLE, publish_bytes
from platoon.artifacts.reading import parse_json, read_regular
from platoon.config.files import read_bytes
from platoon.config.text import counted, printable
from platoon.envs.harbor.sources.hugging_face_client import Absent, HuggingFaceClient, RemoteFile, retrying
from platoon.envs.harbor.sources.listing import INDEX_LIMIT_BYTES
from platoon.envs.harbor.sources.places import make_directory
from platoon.envs.harbor.sources.protocol import FetchTools
from platoon.errors import ConfigError, PlatoonError, Problem
from platoon.host.threads import in_daemon_thread

T = TypeVar("T")

# For each worker, downloads that are begun before the task whose turn it is has all of its files.
AHEAD = 8


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

        def listing() -> list[RemoteFile]:
            found = []
            for number, file in enumerate(self.client.files(self.name, self.commit, path)):
                if number % 1000 == 0:
                    self.tools.progress(f"listing {self.shown}: {counted(number, 'file')}")
                found.append(file)
            return found

        return self._remembered(path, "json", listing)

    def read(self, path: str) -> bytes | None:
        """A file that is small enough to read whole, None where there is none. Raises ConfigError, PlatoonError."""

        def file() -> list[RemoteFile]:
            found = self.client.file(self.name, self.commit, path)
            return [] if found is None else [found]

        if not (listed := self._remembered(path, "file.json", file)):
            return None
        if listed[0].size_bytes > INDEX_LIMIT_BYTES:
            rule = f"has {listed[0].size_bytes} bytes, more than {INDEX_LIMIT_BYTES}"
            raise ConfigError(Problem(rule, key=printable(path), file=self.shown))
        return read_bytes(self.get(listed[0]), limit_bytes=INDEX_LIMIT_BYTES, shown_as=f"{self.shown}#{path}")

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

    def _remembered(self, path: str, kind: str, listing: Callable[[], list[RemoteFile]]) -> list[RemoteFile]:
        """What is known of a path at this commit, which never changes; [] where nothing is."""
        key = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        kept = self.tools.cache.root / "hf-listings" / self.name.replace("/", "--") / self.commit / f"{key}.{kind}"
        if not self.tools.repair and (listed := _read_listing(kept)) is not None:
            return listed
        try:
            listed = self._retrying(listing, f"{self.shown}#{printable(path)}")
        except Absent:
            listed = []
        make_directory(kept.parent)
        rows = [[file.path, file.size_bytes, file.content] for file in listed]
        publish_bytes(kept, json.dumps(rows, separators=(",", ":")).encode(), WRITABLE)
        return listed

    def _download(self, path: str, *, anew: bool) -> Path:
        cache = self.tools.cache.root / "hf"
        make_directory(cache)
        return self._retrying(
            lambda: self.client.download(self.name, self.commit, path, cache, anew=anew), f"{self.shown}#{printable(path)}"
        )

    def _retrying(self, call: Callable[[], T], shown_as: str) -> T:
        tools = self.tools
        return retrying(call, shown_as, sleep=tools.sleep, jitter=tools.jitter, say=tools.say)


@dataclass
class Downloads:
    """The files of so many tasks, taken task after task: each content once, several at a time, some ahead of who takes them.

    wanted: of a task by its number, with paths from the root of the repository. found: by content, filled here. Used inside one
    event loop; what still runs when that ends is left to threads that nobody waits for.
    """

    repository: Repository
    wanted: Callable[[int], Iterable[RemoteFile]]
    count: int
    found: dict[str, Path]
    _running: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _next: int = 0

    def __post_init__(self) -> None:
        self._permits = asyncio.Semaphore(self.repository.tools.workers)

    async def take(self, number: int) -> None:
        """Returns when every file of a task is found. Raises as `Repository.get` does."""
        ahead = AHEAD * self.repository.tools.workers
        while self._next < self.count and (self._next <= number or len(self._running) < ahead):
            for file in self.wanted(self._next):
                self._start(file)
            self._next += 1
        await asyncio.gather(*{self._running[file.content] for file in self.wanted(number) if file.content in self._running})

    def _start(self, file: RemoteFile) -> None:
        if file.content not in self.found and file.content not in self._running:
            task = self._running[file.content] = asyncio.create_task(self._get(file))
            # Whoever never takes it need not hear that it failed.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _get(self, file: RemoteFile) -> None:
        async with self._permits:
            self.found[file.content] = await in_daemon_thread(lambda: self.repository.get(file))
        del self._running[file.content]


def _has_content(path: Path, file: RemoteFile) -> bool:
    kind, _, wanted = file.content.partition(":")
    return (hex_of(sha256_file(path)) if kind == "lfs" else git_blob_sha1(path)) == wanted


def _read_listing(path: Path) -> list[RemoteFile] | None:
    try:
        return [RemoteFile(str(row[0]), int(row[1]), str(row[2])) for row in parse_json(read_regular(path))]
    except (OSError, ValueError, TypeError, IndexError):
        return None
