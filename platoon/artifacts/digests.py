"""Digests of bytes, files, task directories and other trees; the face of the compiled core for hashing.

A digest is text with the name of its algorithm in front: `sha256:<64 lower-case hex digits>`. The content hash follows the
rule named by `CONTENT_HASH_RULE` (`docs/reference/content-hash.md`): modes, owners, times and empty directories do not enter,
and a link that would lead out of the directory is a `DataError` which names it.

Every function that reads raises OSError with errno and path where the file system fails. `threads` bounds the threads of one call
(default: the processors this process may use, one in a forked child); it never changes a result, and no thread outlives the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Literal

from platoon import _native
from platoon._native import CONTENT_HASH_RULE, DataError, UnsupportedError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "CONTENT_HASH_RULE",
    "PREFIX",
    "DataError",
    "ExpectedTask",
    "HashedFile",
    "HashedTask",
    "TreeFile",
    "UnsupportedError",
    "content_hash",
    "file_digest",
    "git_blob_sha1",
    "hashed_task",
    "hex_of",
    "input_digests",
    "is_digest",
    "package_digest",
    "sha256_bytes",
    "sha256_file",
    "tree_files",
    "tree_names",
    "verify_tasks",
]

PREFIX = "sha256:"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class HashedFile:
    """A file that was hashed: its path (relative and POSIX where it comes from a tree), digest and size."""

    path: str
    digest: str
    size_bytes: int


@dataclass(frozen=True)
class HashedTask:
    """digest: the content hash of a task directory. files: what entered it, in order of their paths' code points."""

    digest: str
    files: tuple[HashedFile, ...]


@dataclass(frozen=True)
class TreeFile:
    """A file of a tree: its path below the root, its digest, its size, and whether any execute bit is set."""

    path: str
    digest: str
    size_bytes: int
    is_executable: bool


@dataclass(frozen=True)
class ExpectedTask:
    """A task directory and its content hash. files: digests by path, where they are known: a difference is then told by file."""

    path: str | PathLike[str]
    digest: str
    files: Mapping[str, str] | None = None


def sha256_bytes(*parts: ReadableBuffer) -> str:
    """The digest of buffers at hand, end to end. ShapeError for one that is not contiguous."""
    return PREFIX + _native.sha256_bytes(*parts)


def sha256_file(path: str | PathLike[str]) -> str:
    """The digest of a regular file, links followed. DataError for anything else, which is never read."""
    return PREFIX + _native.sha256_file(path)[0]


def file_digest(path: str | PathLike[str]) -> HashedFile:
    """Digest and size of a regular file from one reading of it."""
    digest, size_bytes = _native.sha256_file(path)
    return HashedFile(str(path), PREFIX + digest, size_bytes)


def git_blob_sha1(path: str | PathLike[str]) -> str:
    """The name git gives a regular file of this content, 40 hex digits: for comparing with a listing, not for trust."""
    return _native.git_blob_sha1(path)


def content_hash(task_dir: str | PathLike[str], *, threads: int | None = None) -> str:
    """The content hash of a task directory.

    Raises DataError for a link that leads out of it and for an ignore file that cannot be read; UnsupportedError for a name
    that is not UTF-8, a link in the place of one of the task's four directories, and a tree deeper than 256 directories.
    """
    return PREFIX + _native.content_hash(task_dir, threads)


def hashed_task(task_dir: str | PathLike[str], *, threads: int | None = None) -> HashedTask:
    """The content hash of a task directory with the files that enter it. Raises as `content_hash` does."""
    digest, rows = _native.hashed_files(task_dir, threads)
    return HashedTask(PREFIX + digest, tuple(HashedFile(path, PREFIX + sha256, size) for path, sha256, size in rows))


def verify_tasks(tasks: Iterable[ExpectedTask], *, threads: int | None = None) -> list[str | None]:
    """For each task the first thing that differs from what is expected, as a sentence that names it, or None. Raises nothing."""
    rows = [
        (task.path, hex_of(task.digest), None if task.files is None else [(path, hex_of(is_)) for path, is_ in task.files.items()])
        for task in tasks
    ]
    return _native.verify_tasks(rows, threads)


def tree_files(
    directory: str | PathLike[str], paths: Sequence[str] | None = None, *, threads: int | None = None
) -> tuple[TreeFile, ...]:
    """The files of a tree such as a build context, all of them or the named ones, in order of their paths' code points.

    A link to a file of the tree counts as that file; links to directories do not count. Raises DataError for a link or a name that
    leads out of the tree and for a name that is no file; UnsupportedError for a name that is not UTF-8 and for a tree deeper than
    256 directories.
    """
    rows = _native.tree_files(directory, None if paths is None else list(paths), threads)
    return tuple(TreeFile(path, PREFIX + sha256, size, is_executable) for path, sha256, size, is_executable in rows)


def tree_names(
    directory: str | PathLike[str], below: str | PathLike[str] = "", *, threads: int | None = None
) -> list[tuple[str, Literal["file", "directory", "outside"] | None]]:
    """Every file and link below `below`, a directory of a tree, by its path from there and in order of the paths' code points.

    Beside each what it leads to, links followed within the tree: `outside` for a link that leaves it, None for one that leads to
    nothing. What is neither file, link nor directory is passed over. Raises UnsupportedError as `tree_files` does.
    """
    return _native.tree_names(directory, below, threads)


def input_digests(directory: str | PathLike[str], paths: Sequence[str]) -> list[str]:
    """The digests of files below a directory as inputs of a task (`docs/reference/content-hash.md`), in the order of `paths`.

    Raises DataError for a name or a link that leads out of the directory, and for a name that is no file.
    """
    return [PREFIX + digest for digest in _native.input_digests(directory, list(paths))]


def package_digest(task_digests: Iterable[str], files: Mapping[str, str] | None = None) -> str:
    """The digest of a dataset package: its tasks' content hashes and, by path, the digests of its own files."""
    text = ",".join(sorted(hex_of(digest) for digest in task_digests))
    if files:
        text += ";" + ",".join(sorted(f"{path}:{hex_of(digest)}" for path, digest in files.items()))
    return sha256_bytes(text.encode())


def is_digest(text: str) -> bool:
    """True for `sha256:` and 64 lower-case hex digits."""
    return _DIGEST.fullmatch(text) is not None


def hex_of(digest: str) -> str:
    """The hex digits alone. DataError where `digest` is none."""
    if not is_digest(digest):
        raise DataError(f"{digest!r}: a digest is sha256: and 64 lower-case hex digits")
    return digest.removeprefix(PREFIX)
