"""Atomic publication: a file is seen whole or not at all, also after a crash.

Every writer goes through here: write beside the target, fsync, rename, fsync the directory. Published artifacts are read-only with
canonical modes, so the caller's umask never shows. A file takes the place of a file alone: a device, a pipe or a link that a slip
names is left as it is. Logs that grow by rows are `artifacts.row_log`'s.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from platoon.artifacts.canonical import canonical_bytes
from platoon.artifacts.reading import naming, read_regular

READ_ONLY = 0o444
PRIVATE = 0o600
WRITABLE = 0o644


def fsync_directory(path: Path) -> None:
    """Makes renames and new names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path, mode: int = READ_ONLY) -> Iterator[IO[bytes]]:
    """A binary file that takes `path`'s place when the block ends well, and vanishes when it does not. Raises OSError."""
    _refuse_other(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".{path.name}.{secrets.token_hex(6)}.partial"
    try:
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
    except OSError as error:
        # The passing name is nobody's concern.
        error.filename = str(path)
        raise
    try:
        with naming(path), os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            beside.unlink()
        raise
    fsync_directory(path.parent)


def publish_bytes(path: Path, data: bytes | memoryview, mode: int = READ_ONLY) -> None:
    """Writes `data` to `path` atomically. An equal file is left as it is, so that its time says when it last changed."""
    _refuse_other(path)
    with suppress(OSError):
        if read_regular(path, len(data)) == data:
            path.chmod(mode)
            return
    with replacing(path, mode) as file:
        file.write(data)


def publish_json(path: Path, value: Any, mode: int = READ_ONLY) -> bytes:
    """Writes the canonical form of `value` atomically and returns the bytes."""
    data = canonical_bytes(value)
    publish_bytes(path, data, mode)
    return data


def _refuse_other(path: Path) -> None:
    """Raises OSError for a place that holds neither a file nor nothing.

    Reading a pipe would wait; a rename would end a device, or a link in place of what it names (`/dev/stdout`).
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode) or path.is_symlink():
            raise FileExistsError(errno.EEXIST, "is no regular file, and is not replaced", str(path))
