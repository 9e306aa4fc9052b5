"""Digests of bytes, files and task directories; the face of the compiled core for hashing.

A digest is text with the name of its algorithm in front: `sha256:<64 lower-case hex digits>`. The content hash follows the
rule named by `CONTENT_HASH_RULE` (`docs/reference/content-hash.md`): modes, owners, times and empty directories do not enter,
and a link that would lead out of the directory is a `DataError` which names it.

Every function that reads raises OSError with errno and path where the file system fails.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike

from platoon import _native
from platoon._native import CONTENT_HASH_RULE, DataError, UnsupportedError

__all__ = [
    "CONTENT_HASH_RULE",
    "PREFIX",
    "DataError",
    "HashedFile",
    "UnsupportedError",
    "content_hash",
    "file_digest",
    "hashed_files",
    "hex_of",
    "is_digest",
    "package_digest",
    "sha256_bytes",
    "sha256_file",
]

PREFIX = "sha256:"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class HashedFile:
    """A file that was hashed: its path (relative and POSIX where it comes from a tree), digest and size."""

    path: str
    digest: str
    size_bytes: int


def sha256_bytes(data: bytes | bytearray | memoryview) -> str:
    """The digest of a buffer."""
    return PREFIX + hashlib.sha256(data).hexdigest()


def sha256_file(path: str | PathLike[str]) -> str:
    """The digest of a regular file, links followed. DataError for anything else, which is never read."""
    return PREFIX + _native.sha256_file(path)[0]


def file_digest(path: str | PathLike[str]) -> HashedFile:
    """Digest and size of a regular file from one reading of it."""
    digest, size_bytes = _native.sha256_file(path)
    return HashedFile(str(path), PREFIX + digest, size_bytes)


def content_hash(task_dir: str | PathLike[str]) -> str:
    """The content hash of a task directory.

    Raises DataError for a link that leads out of it and for an ignore file that cannot be read; UnsupportedError for a name
    that is not UTF-8, a link in the place of one of the task's four directories, and a tree deeper than 256 directories.
    """
    return PREFIX + _native.content_hash(task_dir)


def hashed_files(task_dir: str | PathLike[str]) -> tuple[HashedFile, ...]:
    """The files that enter `content_hash`, in order of their paths' code points. Raises as it does."""
    return tuple(HashedFile(path, PREFIX + digest, size) for path, digest, size in _native.hashed_files(task_dir))


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
