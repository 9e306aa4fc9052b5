"""Atomic publication: a file is seen whole or not at all, also after a crash.

Every writer goes through here: write beside the target, fsync, rename, fsync the directory. Published artifacts are read-only with
canonical modes, so the caller's umask never shows. Logs of rows (`checkpoints.jsonl` and its like) are appended with fsync; a line
torn by a crash is left out when read and never merges with the next one.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from platoon.artifacts.canonical import canonical_bytes

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
    """A binary file that takes `path`'s place when the block ends well, and vanishes when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.parent / f".{path.name}.{secrets.token_hex(6)}.partial"
    descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
    try:
        with os.fdopen(descriptor, "w+b") as file:
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
    with suppress(OSError):
        if path.read_bytes() == data:
            path.chmod(mode)
            return
    with replacing(path, mode) as file:
        file.write(data)


def publish_json(path: Path, value: Any, mode: int = READ_ONLY) -> bytes:
    """Writes the canonical form of `value` atomically and returns the bytes."""
    data = canonical_bytes(value)
    publish_bytes(path, data, mode)
    return data


def append_json_line(path: Path, value: Any) -> None:
    """Appends one JSON object as a line, durable when this returns; a torn line before it is closed off first."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, WRITABLE)
    with os.fdopen(descriptor, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":
                line = b"\n" + line
            file.seek(0, os.SEEK_END)
        try:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            # A full disk may have taken part of the line: what was there before stays, what was not whole goes.
            with suppress(OSError):
                file.truncate(end)
            raise
    if end == 0:
        fsync_directory(path.parent)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a row log in order; [] without a file. Lines that are no JSON object (torn by a crash) are left out."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    rows = []
    for line in data.split(b"\n"):
        with suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict):
                rows.append(value)
    return rows
