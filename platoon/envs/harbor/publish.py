"""Puts tasks into the cache: `<cache>/harbor/tasks/<hex>`, by content, with canonical modes, seen whole or not at all.

Only files that the content hash covers are copied, and the root's `.gitignore` that decides which those are. A cached task is
hashed again whenever it is met; one that no longer matches its name is replaced. What a killed fetch left half-copied is removed by
the next one on that host.
"""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from platoon.artifacts.digests import ExpectedTask, HashedTask, verify_tasks
from platoon.artifacts.store import key_of
from platoon.artifacts.trees import publish_tree, sync_file_system
from platoon.config.text import printable
from platoon.envs.harbor.content import HASH_ERRORS
from platoon.errors import ConfigError, PlatoonError, Problem
from platoon.host.processes import host_name, start_ticks, this_process
from platoon.host.trees import remove_tree

_STAGED = re.compile(r"(?P<host>[^,]+),(?P<pid>[0-9]+),(?P<ticks>[0-9]+),[0-9a-f]{32}")


ROOM_ADVICE = "make room there, or set cache: in the site file to another place"


@dataclass(frozen=True)
class HarborCache:
    """The Harbor part of a site's cache."""

    root: Path

    @property
    def told(self) -> str:
        """For a refusal that lacks something of it: commands that name no site look into another cache than the workflow."""
        return f"in the cache {printable(str(self.root))} (--site or PLATOON_SITE names another)"

    @property
    def staging(self) -> Path:
        return self.root / ".tmp"

    @property
    def tasks(self) -> Path:
        return self.root / "tasks"

    def task(self, digest: str) -> Path:
        """Where the task of a `sha256:<hex>` digest lies, whether it is there or not."""
        return self.tasks / key_of(digest)

    def has_task(self, digest: str) -> bool:
        """Whether the cache has a directory, no link, for a digest; its bytes are not looked at."""
        path = self.task(digest)
        return path.is_dir() and not path.is_symlink()

    def lock_by_digest(self, digest: str) -> Path:
        """Where the lock of a digest lies; a lock by digest never changes, unlike one by name."""
        return self.root / "locks" / "by-digest" / f"{key_of(digest)}.lock.json"

    def lock_by_name(self, name: str) -> Path:
        return self.root / "locks" / f"{name}.lock.json"

    def latest_lock(self, name: str) -> Path:
        """Where the digest of the lock stands that a place's source was last locked to, whatever of it was asked for."""
        return self.root / "locks" / "latest" / name

    def fetch_lock(self, name: str) -> Path:
        """The flock under which fetches of one lock take turns."""
        return self.root / ".locks" / f"fetch-{name}.lock"


def no_room(error: Exception, cache: Path) -> PlatoonError | None:
    """What to raise where a write into the cache failed because there was no room for it; None where that is not why."""
    number = error.errno if isinstance(error, OSError) else None
    if number not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return None
    advice = "raise the limit of `ulimit -f`" if number == errno.EFBIG else ROOM_ADVICE
    return PlatoonError(f"{cache}: cannot be written: {os.strerror(number)} ({advice}; what was fetched is kept)")


def publish_task(source: Path, contents: HashedTask, cache: HarborCache, programs: Set[str] = frozenset()) -> bool:
    """Makes the cache hold a task whose contents were read from `source`; True when it was copied.

    programs: paths that are executable whatever they are called and begin with. Not durable before `make_durable`.
    Raises ConfigError when the source changed meanwhile, PlatoonError when it cannot be read or the cache not written.
    """
    try:
        cache.root.parent.mkdir(parents=True, exist_ok=True)
        published = publish_tree(
            source,
            base=cache.root.parent,
            trees=f"{cache.root.name}/{cache.tasks.name}",
            staged=f"{cache.root.name}/{cache.staging.name}/{staging_name()}",
            expected=contents.digest,
            programs=programs,
            durable=False,
        )
    except HASH_ERRORS as error:
        if (full := no_room(error, cache.root)) is not None:
            raise full from error
        raise PlatoonError(f"{cache.root}: a task cannot be put into the cache: {error}") from error
    if published.outcome == "changed":
        problem = Problem("changed while it was copied", file=str(source), advice="fetch again when nothing writes there")
        raise ConfigError(problem)
    return published.outcome == "copied"


def make_durable(cache: HarborCache) -> None:
    """Returns when every task published so far would survive a crash; before a lock is written that names them."""
    sync_file_system(cache.root)


def sweep_staging(cache: HarborCache) -> None:
    """Removes what fetches of this host left behind that no longer live; other hosts sweep their own."""
    if not cache.staging.is_dir():
        return
    for path in cache.staging.iterdir():
        owner = _STAGED.fullmatch(path.name)
        if owner is None or owner["host"] != host_name():
            continue
        if start_ticks(int(owner["pid"])) != int(owner["ticks"]):
            remove_tree(path)


def check_cached(digest: str, cache: HarborCache) -> Path:
    """The directory of a cached task whose bytes are those its name says. Raises PlatoonError when it is missing or differs."""
    task = cache.task(digest)
    if found := cache_problems([digest], cache)[0]:
        raise PlatoonError(f"{task}: a cached task is missing, or not what its digest says: {found} (run platoon harbor fetch)")
    return task


def cache_problems(digests: Iterable[str], cache: HarborCache) -> list[str | None]:
    """For each digest what keeps the cached task from being what it says, or None. Reads all of them."""
    expected = [ExpectedTask(cache.task(digest), digest) for digest in digests]
    return [
        None if found is None else _fault(found, task, cache) for found, task in zip(verify_tasks(expected), expected, strict=True)
    ]


def _fault(found: str, task: ExpectedTask, cache: HarborCache) -> str:
    """In terms of the task: whoever tells it knows where the cache is."""
    if not cache.has_task(task.digest):
        return f"{task.digest} is not in the cache"
    return found.removeprefix(f"{cache.task(task.digest)}: ").replace(f"{cache.task(task.digest)}/", "")


def staging_name() -> str:
    """A name for a directory in the staging area that tells which process made it."""
    return f"{_owner(os.getpid())},{uuid.uuid4().hex}"


@lru_cache(maxsize=1)
def _owner(pid: int) -> str:
    """The process of this pid, which is the calling one."""
    me = this_process()
    return f"{me.host},{me.pid},{me.start_ticks}"
