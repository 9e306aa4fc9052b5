"""Publication of task directories by content: the face of the compiled core for trees.

Assumes a source that may change meanwhile and a base directory that is there. Guarantees that a published tree is whole, lies under
the hex of its content hash, and holds what the hash covers alone: directories and programs 0755, other files 0644. Below the base
no link is followed; in the source a link leads to a file of the source or is refused.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

from platoon import _native
from platoon.artifacts.digests import PREFIX, hex_of


@dataclass(frozen=True)
class PublishedTree:
    """digest: the content hash of what was read.

    outcome: `copied`; `found` where it was there already and right; `changed` where it is not the expected digest, and nothing was
    published.
    """

    digest: str
    outcome: Literal["copied", "found", "changed"]


def publish_tree(
    source: Path,
    *,
    base: Path,
    trees: str,
    staged: str,
    expected: str | None = None,
    programs: Set[str] = frozenset(),
    durable: bool = True,
) -> PublishedTree:
    """Copies the task directory `source` to `base/trees/<hex>`, hashing what it writes; blocks are shared where they can be.

    staged: a free name relative to `base`, on the same file system; what is there while this works is gone afterwards. An entry
    that is not what its name says is replaced. programs: relative paths that are executable whatever they are called and begin
    with. durable: whether all of it is on the disk before it gets its name; without, `sync_file_system` makes many durable at once.
    Raises DataError for a link in the cache, one that leaves the task and one to no file; UnsupportedError and OSError as
    `artifacts.digests.content_hash` does.
    """
    digest, outcome = _native.publish_task(
        source, base, trees, staged, set(programs), None if expected is None else hex_of(expected), durable
    )
    return PublishedTree(PREFIX + digest, outcome)


def sync_file_system(path: str | PathLike[str]) -> None:
    """Returns when everything written to the file system of a directory is on the disk. Raises OSError."""
    _native.sync_file_system(path)
