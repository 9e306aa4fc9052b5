"""Cached tasks that were hashed on this node already, remembered so that the rollouts of a group hash their task once.

A mark, `<scratch>/platoon-harbor-<uid>/verified/<hex>`, holds where the task lay and how its files stood: sizes, times of change,
inodes. A task that stands otherwise is hashed again, so that what was changed since is never believed. Marks are a saving alone:
where scratch cannot be used, every read hashes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from platoon.artifacts.publish import WRITABLE, publish_bytes
from platoon.envs.harbor.publish import HarborCache, check_cached
from platoon.errors import HeldError, PlatoonError
from platoon.host.locks import file_lock
from platoon.host.scratch import private_dir

SCRATCH_NAME = "platoon-harbor"
LOCK_TIMEOUT_S = 600.0


def check_once(digest: str, cache: HarborCache) -> Path:
    """As `check_cached`, but a task that stands as when this node last hashed it is not hashed again. Raises PlatoonError."""
    task = cache.task(digest)
    if (marks := _marks()) is None:
        return check_cached(digest, cache)
    mark = marks / task.name
    if _holds(mark, task):
        return task
    with ExitStack() as turn:
        with suppress(OSError, HeldError):
            turn.enter_context(file_lock(marks / f"{task.name[:2]}.lock", timeout_s=LOCK_TIMEOUT_S, what=f"hashing {digest}"))
        # Another rollout may have hashed it while this one waited.
        if not _holds(mark, task):
            before = _standing(task)
            check_cached(digest, cache)
            if before is not None and before == _standing(task):
                with suppress(OSError):
                    publish_bytes(mark, before, WRITABLE)
    return task


def _marks() -> Path | None:
    """The directory of this node's marks, None where there can be none that is ours alone."""
    try:
        marks = private_dir(SCRATCH_NAME) / "verified"
        marks.mkdir(exist_ok=True)
    except (OSError, PlatoonError):
        return None
    return marks


def _holds(mark: Path, task: Path) -> bool:
    try:
        marked = mark.read_bytes()
    except OSError:
        return False
    return marked == _standing(task)


def _standing(task: Path) -> bytes | None:
    """What a mark says of a task as it is now; None where its files cannot be listed."""
    digest = hashlib.sha256()
    try:
        for name, status in _entries(task):
            facts = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)
            digest.update(f"{len(name)}:{name.decode('utf-8', 'surrogateescape')}{facts!r}".encode("utf-8", "surrogateescape"))
    except OSError:
        return None
    return os.fsencode(task.absolute()) + b"\n" + digest.hexdigest().encode() + b"\n"


def _entries(task: Path) -> Iterator[tuple[bytes, os.stat_result]]:
    """Everything in a task, by path, in one order; links are not followed."""
    pending = [os.fsencode(task)]
    while pending:
        place = pending.pop()
        yield place, os.lstat(place)
        with os.scandir(place) as scanned:
            entries = sorted(scanned, key=lambda entry: entry.name)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            else:
                yield entry.path, entry.stat(follow_symlinks=False)
