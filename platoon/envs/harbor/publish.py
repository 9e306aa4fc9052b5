"""Puts tasks into the cache: `<cache>/harbor/tasks/<hex>`, by content, with canonical modes, seen whole or not at all.

Only files that the content hash covers are copied, and the root's `.gitignore` that decides which those are. A cached task is
hashed again whenever it is met; one that no longer matches its name is put aside and replaced. What a killed fetch left half-copied
is removed by the next one on that host.
"""

from __future__ import annotations

import re
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from platoon.artifacts.store import key_of
from platoon.envs.harbor.content import HASH_ERRORS, TaskContents, read_contents
from platoon.errors import ConfigError, PlatoonError, Problem
from platoon.host.locks import file_lock
from platoon.host.processes import host_name, start_ticks, this_process
from platoon.host.trees import remove_tree

FILE_MODE = 0o644
PROGRAM_MODE = 0o755
MODES = "canonical"
LOCK_TIMEOUT_S = 600.0

_STAGED = re.compile(r"(?P<host>[^,]+),(?P<pid>\d+),(?P<ticks>\d+),[0-9a-f]{32}")


@dataclass(frozen=True)
class HarborCache:
    """The Harbor part of a site's cache."""

    root: Path

    @property
    def staging(self) -> Path:
        return self.root / ".tmp"

    @property
    def task_lock(self) -> Path:
        return self.root / ".locks" / "tasks.lock"

    def task(self, digest: str) -> Path:
        """Where the task of a `sha256:<hex>` digest lies, whether it is there or not."""
        return self.root / "tasks" / key_of(digest)

    def has_task(self, digest: str) -> bool:
        """Whether the cache has a directory, no link, for a digest; its bytes are not looked at."""
        path = self.task(digest)
        return path.is_dir() and not path.is_symlink()

    def lock_by_digest(self, digest: str) -> Path:
        """Where the lock of a digest lies; a lock by digest never changes, unlike one by name."""
        return self.root / "locks" / "by-digest" / f"{key_of(digest)}.lock.json"

    def lock_by_name(self, name: str) -> Path:
        return self.root / "locks" / f"{name}.lock.json"

    def fetch_lock(self, name: str) -> Path:
        """The flock under which fetches of one lock take turns."""
        return self.root / ".locks" / f"fetch-{name}.lock"


def publish_task(source: Path, contents: TaskContents, cache: HarborCache, programs: frozenset[str] = frozenset()) -> bool:
    """Makes the cache hold a task whose contents were read from `source`; True when it was copied.

    programs: paths that are executable whatever they are called and begin with.
    Raises ConfigError when the source changed meanwhile, PlatoonError when it cannot be read or the cache not written.
    """
    target = cache.task(contents.digest)
    if _matches(target, contents.digest):
        _add_programs(target, programs)
        return False
    staged = cache.staging / staging_name()
    try:
        _copy(source, contents, staged)
        _add_programs(staged, programs)
        if read_contents(staged).digest != contents.digest:
            raise ConfigError(
                Problem("changed while it was copied", file=str(source), advice="fetch again when nothing writes there")
            )
        with file_lock(cache.task_lock, timeout_s=LOCK_TIMEOUT_S, what="publishing a task"):
            return _rename(staged, target, contents.digest, cache)
    except OSError as error:
        raise PlatoonError(f"{cache.root}: a task cannot be put into the cache: {error}") from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)


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
    path = cache.task(digest)
    if not _matches(path, digest):
        raise PlatoonError(f"{path}: missing, or not what its digest says (run platoon harbor fetch)")
    return path


def staging_name() -> str:
    """A name for a directory in the staging area that tells which process made it."""
    me = this_process()
    return f"{me.host},{me.pid},{me.start_ticks},{uuid.uuid4().hex}"


def _matches(path: Path, digest: str) -> bool:
    if path.is_symlink() or not path.is_dir():
        return False
    try:
        return read_contents(path).digest == digest
    except HASH_ERRORS:
        return False


def _rename(staged: Path, target: Path, digest: str, cache: HarborCache) -> bool:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() or target.is_symlink():
        if _matches(target, digest):
            return False
        aside = cache.staging / staging_name()
        target.rename(aside)
        staged.rename(target)
        with suppress(OSError):
            aside.unlink() if aside.is_symlink() or not aside.is_dir() else shutil.rmtree(aside)
        return True
    staged.rename(target)
    return True


def _copy(source: Path, contents: TaskContents, staged: Path) -> None:
    staged.parent.mkdir(parents=True, exist_ok=True)
    _make_directory(staged)
    names = [file.path for file in contents.files]
    if (source / ".gitignore").is_file():
        names.append(".gitignore")
    for name in names:
        target = staged / name
        for parent in reversed(target.relative_to(staged).parents[:-1]):
            _make_directory(staged / parent)
        # Contents only: no mode, owner or time of the source shows in the cache.
        shutil.copyfile(source / name, target)
        target.chmod(PROGRAM_MODE if _is_program(target) else FILE_MODE)


def _add_programs(directory: Path, programs: frozenset[str]) -> None:
    # Another source may have given the same files without their modes.
    for name in programs:
        path = directory / name
        if path.is_file() and not path.is_symlink() and not path.stat().st_mode & 0o100:
            path.chmod(PROGRAM_MODE)


def _make_directory(path: Path) -> None:
    if not path.is_dir():
        path.mkdir()
        path.chmod(PROGRAM_MODE)


def _is_program(path: Path) -> bool:
    if path.suffix == ".sh":
        return True
    with path.open("rb") as file:
        return file.read(2) == b"#!"
