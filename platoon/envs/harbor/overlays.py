"""Overlays: directories with an `overlay.toml` that change the tasks they match before anything is hashed or planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class FileEdit:
    """`[[edit]]`: exactly `count` replacements of a regular expression in one file, or the task is refused."""

    file: str
    pattern: str
    replace: str = ""
    count: int = 1


@dataclass(frozen=True)
class FileCopy:
    """`[[copy]]`: a file of the overlay put at `file` of the task."""

    file: str
    source: str
    executable: bool = False


@dataclass(frozen=True)
class HostNetworkRule:
    """`host_network` of a `[[compose]]` entry: variables that give a service its port, its token and its address."""

    listen: tuple[str, ...] = ()
    token: tuple[str, ...] = ()
    bind: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComposeEdit:
    """`[[compose]]`: edits of one service of the compose file, before it is interpolated."""

    service: str
    set: Mapping[str, Any] = field(default_factory=dict)
    replace: Mapping[str, Any] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    external: str | None = None
    scope: Mapping[str, str] = field(default_factory=dict)
    host_network: HostNetworkRule | None = None


@dataclass(frozen=True)
class Overlay:
    """One overlay, read whole. match: index fields (and `name` globs) to the values that match, as text.

    digest: 64 hex over `overlay.toml` and the files it copies.
    """

    name: str
    directory: Path
    digest: str
    match: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    edits: tuple[FileEdit, ...] = ()
    copies: tuple[FileCopy, ...] = ()
    compose: tuple[ComposeEdit, ...] = ()
    compose_host_env: tuple[str, ...] = ()

    def matches(self, task: str, index: Mapping[str, Any]) -> bool:
        """Whether every field matches the task of this id and these index fields."""
        raise NotImplementedError


def read_overlay(directory: Path) -> Overlay:
    """The overlay of a directory. Raises ConfigError with every problem of its `overlay.toml`."""
    raise NotImplementedError


def apply_files(overlay: Overlay, task: Path) -> None:
    """Applies `[[edit]]` and `[[copy]]` to a task's own copy, by new inodes. Raises TaskRefused (`overlay`)."""
    raise NotImplementedError


def overlays_digest(overlays: Sequence[Overlay]) -> str | None:
    """A lock's `overlay`: `sha256:<hex>` over names and digests in order; None without overlays."""
    raise NotImplementedError
