"""What every source of tasks offers: resolve a reference, list its tasks, bring selected ones to this machine.

Selection, overlays, hashing, plans and the lock are the same for all of them. A source that is not local is resolved to something
that cannot change (a commit, a digest) before anything is listed.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from platoon.envs.harbor.publish import HarborCache
from platoon.errors import Problem

if TYPE_CHECKING:
    import httpx

    from platoon.envs.harbor.sources.hugging_face_client import HuggingFaceClient

WORKERS = 8


@dataclass(frozen=True)
class SourceTask:
    """A task before it is fetched.

    path: relative to the dataset, POSIX, "." for a dataset that is one task. content: names its bytes in the source (such as the id
    of a git tree), None where only reading tells. digest: what the source says its files hash to, which they must. origin: where a
    task of a dataset of many repositories comes from, for its row. programs: files that the source keeps as executable.
    named_by: the index file that names it, as messages call it; "" for a task that was found by its task file.
    """

    id: str
    path: str
    index: Mapping[str, Any] = field(default_factory=dict)
    content: str | None = None
    digest: str | None = None
    origin: Mapping[str, str] | None = None
    programs: frozenset[str] = frozenset()
    named_by: str = ""


@dataclass(frozen=True)
class Materialised:
    """A task's files, in `directory` until the next one is asked for."""

    task: SourceTask
    directory: Path


@dataclass(frozen=True)
class Recorded:
    """What a lock recorded of an earlier resolution, to have the same again. source: {} where only `resolved` is known."""

    resolved: str
    source: Mapping[str, Any] = field(default_factory=dict)


class Dataset(Protocol):
    """A source that was resolved. Methods raise ConfigError for faults of the data, PlatoonError for those of the way to it."""

    @property
    def resolved(self) -> str | None:
        """A commit or a digest; None for what is known by its tasks alone."""
        ...

    @property
    def source(self) -> Mapping[str, Any]:
        """How it resolved, for the lock: no host value, no machine path."""
        ...

    def list_tasks(self) -> list[SourceTask]:
        """Every task in order of id."""
        ...

    def identify(self, tasks: Sequence[SourceTask]) -> Sequence[SourceTask]:
        """Selected tasks with what names their bytes and which of them are programs, where that is known without fetching them."""
        ...

    def read_index(self, path: str) -> Any:
        """The JSON value, or the rows, of an index file of the dataset."""
        ...

    def judge(self, tasks: Sequence[SourceTask]) -> Mapping[str, Sequence[Problem]]:
        """By id the tasks that cannot be fetched, as far as their source tells without giving their files."""
        ...

    def materialise(self, tasks: Sequence[SourceTask]) -> Iterator[Materialised]:
        """The files of tasks that were judged, each once, in any order; what was made for it goes when the iteration ends."""
        ...


class Source(Protocol):
    """Anything a dataset reference may name. reference: as the lock writes it. fetched_with: the tool, not this machine's version.

    pinned: it can only mean the same bytes. is_local: its files may change, so that each fetch reads it again.
    """

    @property
    def reference(self) -> str: ...

    @property
    def pinned(self) -> bool: ...

    @property
    def is_local(self) -> bool: ...

    @property
    def fetched_with(self) -> str: ...

    def inputs(self) -> Mapping[str, Any]:
        """What was asked for beside the reference, for the digest of the inputs; {} where that is nothing."""
        ...

    def resolve(self, tools: FetchTools, recorded: Recorded | None = None) -> AbstractContextManager[Dataset]:
        """The dataset, usable inside the block. recorded: has what an earlier lock resolved to instead of asking what it is now."""
        ...


class _Parsed(Protocol):
    @property
    def pinned(self) -> bool: ...


ParsedType = TypeVar("ParsedType", bound=_Parsed)


@dataclass(frozen=True)
class ReferenceSource(Generic[ParsedType]):
    """What all sources elsewhere are that their reference names whole. reference: as the configuration writes it."""

    reference: str
    parsed: ParsedType
    is_local: bool = False

    @property
    def pinned(self) -> bool:
        return self.parsed.pinned

    def inputs(self) -> Mapping[str, Any]:
        return {}


def _silent(text: str) -> None: ...


def _web_client() -> httpx.Client:
    import httpx

    return httpx.Client(timeout=60.0, follow_redirects=False)


def _hugging_face() -> HuggingFaceClient:
    from platoon.envs.harbor.sources.hugging_face_client import HubClient

    return HubClient()


@dataclass(frozen=True)
class FetchTools:
    """What sources work with; the defaults are the real ones. say: a line that stays. progress: where a long step is.

    repair: what is kept of earlier fetches is not trusted. environment: variables of this process.
    """

    cache: HarborCache
    workers: int = WORKERS
    repair: bool = False
    say: Callable[[str], None] = _silent
    progress: Callable[[str], None] = _silent
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    web_client: Callable[[], httpx.Client] = _web_client
    hugging_face: Callable[[], HuggingFaceClient] = _hugging_face
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
