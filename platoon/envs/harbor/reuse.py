"""Tasks that earlier fetches brought: an interrupted fetch goes on from them, and a repeated one fetches nothing.

Two memories: the rows of an older lock of the same commit or digest, and, by what names a task's bytes in its source, what became
of them. Neither is believed: a cached task is hashed before it is used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from platoon.artifacts.digests import HashedTask, is_digest
from platoon.artifacts.publish import WRITABLE, publish_bytes
from platoon.artifacts.reading import parse_json, read_regular
from platoon.config.text import few
from platoon.envs.harbor.content import HASH_ERRORS, read_contents
from platoon.envs.harbor.lock import HarborLock, LockRow
from platoon.envs.harbor.overlays import Overlay
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.sources.places import make_directory
from platoon.envs.harbor.sources.protocol import SourceTask


@dataclass(frozen=True)
class Known:
    """A task in the cache. upstream_digest: before overlays, None where they changed nothing."""

    directory: Path
    contents: HashedTask
    upstream_digest: str | None


@dataclass(frozen=True)
class Reuse:
    """rows: of older locks by source path: digest and upstream digest. enabled: False when nothing kept is to be trusted."""

    cache: HarborCache
    enabled: bool = True
    rows: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)

    def find(self, task: SourceTask, overlays: Sequence[Overlay]) -> Known | None:
        """The task where the cache holds it whole, with the same overlays applied."""
        if not self.enabled:
            return None
        candidates = [self._remembered(task, overlays), self.rows.get(task.path)]
        if task.digest is not None and not _change_files(overlays):
            candidates.append((task.digest, None))
        for digest, upstream in filter(None, candidates):
            known = self._checked(digest, upstream)
            if known is not None and task.digest in (None, upstream or digest):
                return known
        return None

    def remember(self, task: SourceTask, overlays: Sequence[Overlay], digest: str, upstream: str | None) -> None:
        """Keeps what became of a task; only where its source can name its bytes."""
        if task.content is not None:
            path = self._memory(task.content, overlays)
            make_directory(path.parent)
            publish_bytes(path, json.dumps([digest, upstream]).encode(), WRITABLE)

    def _remembered(self, task: SourceTask, overlays: Sequence[Overlay]) -> tuple[str, str | None] | None:
        if task.content is None:
            return None
        try:
            digest, upstream = parse_json(read_regular(self._memory(task.content, overlays)))
        except (OSError, ValueError, TypeError):
            return None
        if not isinstance(digest, str) or not isinstance(upstream, str | None):
            return None
        return digest, upstream

    def _memory(self, content: str, overlays: Sequence[Overlay]) -> Path:
        text = "\0".join([content, *(f"{overlay.name}\0{overlay.digest}" for overlay in overlays)])
        key = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        return self.cache.root / "known" / key[:2] / f"{key}.json"

    def _checked(self, digest: str, upstream: str | None) -> Known | None:
        if not is_digest(digest) or not self.cache.has_task(digest):
            return None
        directory = self.cache.task(digest)
        try:
            contents = read_contents(directory)
        except HASH_ERRORS:
            return None
        return Known(directory, contents, upstream) if contents.digest == digest else None


def rows_of(locks: Sequence[HarborLock], resolved: str | None, overlay: str | None) -> dict[str, tuple[str, str | None]]:
    """What older locks say of tasks by their source path, from those of the same commit or digest and the same overlays alone."""
    found: dict[str, tuple[str, str | None]] = {}
    for lock in locks:
        if resolved is not None and lock.resolved == resolved and lock.overlay == overlay:
            found.update({row.source_path: (row.digest, row.upstream_digest) for row in lock.tasks})
    return found


@dataclass(frozen=True)
class Changes:
    """What a lock's source gives otherwise than when an earlier lock was made. since: what it resolved to then."""

    since: str
    changed: tuple[str, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]

    def __str__(self) -> str:
        parts = [(what, names) for what, names in vars(self).items() if what != "since" and names]
        return "; ".join(f"{len(names)} {what}: {few(names)}" for what, names in parts) or "all tasks are the same"

    @property
    def any(self) -> bool:
        return bool(self.changed or self.new or self.gone)


def changes(before: HarborLock, after: HarborLock) -> Changes:
    """Tasks whose files in the source are not the same in both locks, in order of id."""
    old, new = before.by_name, after.by_name
    both = sorted(old.keys() & new.keys())
    changed = tuple(name for name in both if _upstream(old[name]) != _upstream(new[name]))
    return Changes(before.resolved, changed, tuple(sorted(new.keys() - old.keys())), tuple(sorted(old.keys() - new.keys())))


def _upstream(row: LockRow) -> str:
    return row.upstream_digest or row.digest


def _change_files(overlays: Sequence[Overlay]) -> bool:
    return any(overlay.edits or overlay.copies for overlay in overlays)
