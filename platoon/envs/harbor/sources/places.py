"""Directories of our own in the cache: made with modes that no umask changes, links refused, what dead fetches left removed."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from platoon.artifacts.publish import WRITABLE, publish_bytes
from platoon.envs.harbor.publish import HarborCache, staging_name
from platoon.errors import PlatoonError
from platoon.host.trees import CACHE_TAG, remove_tree

MODE = 0o755
CACHE_TAG_DATA = b"Signature: 8a477f597d28d172789f06886806bc55\n# Tasks, locks and sources that platoon fetched.\n"
OWN = (".", ".tmp", ".locks", "tasks", "locks", "locks/by-digest", "git", "hub", "hf", "hf-listings", "known")


def check_places(cache: HarborCache) -> None:
    """Raises PlatoonError when a directory of ours in the cache is a link or none: what is written there would go elsewhere.

    The site's cache itself may be a link to another disk.
    """
    for name in OWN:
        path = cache.root if name == "." else cache.root / name
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(status.st_mode):
            kind = "a link" if stat.S_ISLNK(status.st_mode) else "no directory"
            raise PlatoonError(f"{path}: is {kind} (remove it, or set cache: in the site file to another place)")


def mark_cache(cache: HarborCache) -> None:
    """Says in the cache that it is one: below a dataset's directory it is no part of the dataset."""
    make_directory(cache.root)
    publish_bytes(cache.root / CACHE_TAG, CACHE_TAG_DATA, WRITABLE)


def make_directory(path: Path) -> None:
    """Makes a directory and its parents; those that are made have mode 0755 under every umask."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        with suppress(FileExistsError):
            directory.mkdir()
            directory.chmod(MODE)


@contextmanager
def staging(cache: HarborCache) -> Iterator[Path]:
    """An empty directory of this process in the cache, gone after the block; a killed one's is swept by the next fetch."""
    place = cache.staging / staging_name()
    make_directory(place)
    try:
        yield place
    finally:
        remove_tree(place)
