"""Reads files that a person named: bounded, regular, with a refusal that names the file as it was written."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Literal

from platoon.artifacts.reading import read_regular
from platoon.config.text import short_path
from platoon.errors import ConfigError, Problem

Wanted = Literal["file", "directory"]


def named_path(text: str, base: Path) -> Path:
    """The path a configuration names: relative to `base`, `~` and `~user` being homes. An unknown user's stays as it is written."""
    return base / os.path.expanduser(text)  # noqa: PTH111  because Path.expanduser raises for an unknown user


def relative_path(path: Path, base: Path) -> str:
    """A path as one relative to the directory `base`, which `named_path` leads to the same place: a file that other machines read
    names no place of this one.

    Of the two ways there, as it is written and with every link followed, it is the shorter: in a clone the same as in every other.
    """
    physical = os.path.relpath(os.path.realpath(path), os.path.realpath(base))
    lexical = os.path.relpath(path, base)
    # Above a directory that is a link lies another one than its text says.
    leads = os.path.realpath(base / lexical) == os.path.realpath(path)
    relative = lexical if leads and lexical.count("/") <= physical.count("/") else physical
    # Or it would be an address, or a home.
    return f"./{relative}" if ":" in relative or relative.startswith(("~", "git+")) else relative


def path_fault(path: Path, wanted: Wanted, *, missing: bool = False) -> str | None:
    """Why `path` is not what is wanted, in words that go before its name; None when it is.

    What is below `/dev` passes for files that are read, since a shell puts pipes there. missing: it is to be written, so that
    nothing need be there.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None if missing else "no such file or directory"
    except (OSError, ValueError) as error:
        return f"cannot be read ({getattr(error, 'strerror', None) or error})"
    if wanted == "directory":
        return None if stat.S_ISDIR(mode) else "is no directory"
    return None if stat.S_ISREG(mode) or (path.is_relative_to("/dev") and not missing) else "is no regular file"


def read_bytes(path: Path, *, limit_bytes: int, shown_as: str) -> bytes:
    """The bytes of a file. Raises ConfigError when it is missing, no file, or too large.

    Pipes are read below `/dev` alone, where a shell put them: elsewhere one without a writer would wait for ever.
    """
    try:
        if not path.is_relative_to("/dev"):
            return read_regular(path, limit_bytes)
        with path.open("rb") as file:
            data = file.read(limit_bytes + 1)
    except OSError as error:
        raise ConfigError(Problem(_told(error, path), file=short_path(shown_as))) from None
    except ValueError as error:
        raise ConfigError(Problem(f"cannot be read: {error}", file=short_path(shown_as))) from None
    if len(data) > limit_bytes:
        raise ConfigError(Problem(f"has more than {limit_bytes} bytes", file=short_path(shown_as)))
    return data


def _told(error: OSError, path: Path) -> str:
    if error.errno == errno.EFBIG:
        return str(error.strerror)
    if error.errno == errno.EINVAL and not path.is_dir():
        return "is no regular file"
    return f"cannot be read: {os.strerror(errno.EISDIR) if error.errno == errno.EINVAL else error.strerror}"


def read_text(path: Path, *, limit_bytes: int, shown_as: str) -> str:
    """The text of a file in UTF-8, without a byte order mark. Raises ConfigError."""
    try:
        return read_bytes(path, limit_bytes=limit_bytes, shown_as=shown_as).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(Problem(f"is not UTF-8 (byte {error.start})", file=short_path(shown_as))) from None
