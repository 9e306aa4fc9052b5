"""Reads files that a person named: bounded, regular, with a refusal that names the file as it was written."""

from __future__ import annotations

import stat
from pathlib import Path

from platoon.config.text import printable
from platoon.errors import ConfigError, Problem


def read_bytes(path: Path, *, limit_bytes: int, shown_as: str) -> bytes:
    """The bytes of a file. Raises ConfigError when it is missing, no file, or too large.

    Pipes are read below `/dev` alone, where a shell put them: elsewhere one without a writer would wait for ever.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir() and not path.is_relative_to("/dev"):
            raise ConfigError(Problem("is no regular file", file=shown_as))
        with path.open("rb") as file:
            data = file.read(limit_bytes + 1)
    except OSError as error:
        raise ConfigError(Problem(f"cannot be read: {error.strerror}", file=shown_as)) from None
    except ValueError as error:
        raise ConfigError(Problem(f"cannot be read: {error}", file=printable(shown_as))) from None
    if len(data) > limit_bytes:
        raise ConfigError(Problem(f"has more than {limit_bytes} bytes", file=shown_as))
    return data


def read_text(path: Path, *, limit_bytes: int, shown_as: str) -> str:
    """The text of a file in UTF-8, without a byte order mark. Raises ConfigError."""
    try:
        return read_bytes(path, limit_bytes=limit_bytes, shown_as=shown_as).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(Problem(f"is not UTF-8 (byte {error.start})", file=shown_as)) from None
