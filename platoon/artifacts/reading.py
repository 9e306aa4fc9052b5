"""Reads documents that somebody else may have written: regular files alone, of bounded size and depth, in Unicode.

Assumes nothing of what lies at a path. Guarantees that reading never waits (a FIFO has no writer, a device no end), and that what
a parser returns can be walked, written as JSON and encoded: nothing is nested deeper than `DEPTH_LIMIT`, no text holds half a
surrogate pair, no number has more digits than Python writes. Every parser of documents goes through here: `json.loads` ends a
process by recursion and hands surrogates on, `tomllib` takes memory by the square of a key's length.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SIZE_LIMIT_BYTES = 256 << 20
DEPTH_LIMIT = 200
# Parts of all keys and headers of one TOML document: for each the parser keeps about 4 KB in the worst case.
TOML_PARTS_LIMIT = 20_000

# What a disk says of a file that is open.
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ESTALE)

# What may be half a surrogate pair: UTF-8 has none but in escapes.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# Comments and strings, ended where the parser ends them. What follows a string without an end is no TOML.
_OPAQUE = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}|"(?:[^"\\\n]|\\[^\n])*+"|'{3}(?:[^']|'(?!''))*+'{3,5}|'[^'\n]*+'|#[^\n]*+''', re.DOTALL
)
# On text without those: the parts of a header, of a key or of any other word.
_WORD = r"[A-Za-z0-9_-]++"
_KEY = re.compile(rf"(^[ \t]*+\[{{1,2}}[ \t]*+)?({_WORD}(?:[ \t]*+\.[ \t]*+{_WORD})*+)[ \t]*+(=?)", re.MULTILINE)
# Python reads such a number of any length, and writes none of more than 4300 digits.
_LONG_NUMBER = re.compile(r"0[xob][0-9A-Fa-f_]{3000}")
_DIGITS = re.compile(r"[0-9A-Fa-f_]{3000}")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """A read or a write that a disk does not take names no file of itself: what is raised in the block then names `path`."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in DISK_ERRORS:
            error.filename = str(path)
        raise


def open_regular(path: Path, flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
    """A descriptor of a regular file, links followed; never waits. Raises OSError for anything else, naming the path."""
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        # Sockets, and FIFOs and devices without their other end.
        if error.errno in (errno.ENXIO, errno.ENODEV):
            raise _irregular(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _irregular(path)
    return descriptor


def read_regular(path: Path, limit_bytes: int | None = SIZE_LIMIT_BYTES) -> bytes:
    """The bytes of a regular file. Raises OSError, naming the path, for anything else and for more than `limit_bytes`."""
    with naming(path), os.fdopen(open_regular(path), "rb") as file:
        data = file.read(-1 if limit_bytes is None else limit_bytes + 1)
    if limit_bytes is not None and len(data) > limit_bytes:
        raise OSError(errno.EFBIG, f"has more than {limit_bytes} bytes", str(path))
    return data


def read_part(path: Path, size_bytes: int, offset: int = 0) -> bytes:
    """At most so many bytes of a regular file. Raises OSError, naming the path, for anything else."""
    with naming(path), os.fdopen(open_regular(path), "rb") as file:
        file.seek(offset)
        return file.read(size_bytes)


def parse_json(text: bytes | str, *, unique_keys: bool = False, finite: bool = False, **options: Any) -> Any:
    """The value of JSON text, in UTF-8 where it is bytes. options: those of `json.loads`.

    unique_keys: for what people write, where a key that is given twice is a slip that would lose the first value.
    finite: refuses the NaN and the infinities that Python reads, and numbers that would become one.
    Raises ValueError for what is no JSON, is nested deeper than `DEPTH_LIMIT`, or holds half a surrogate pair.
    """
    if unique_keys:
        options["object_pairs_hook"] = _refuse_twins
    if finite:
        options |= {"parse_constant": _refuse_constant, "parse_float": _finite}
    decoded = _decoded(text)
    try:
        value = json.loads(decoded, **options)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        # Python's own, of a number it reads no further.
        raise _too_long(decoded) if "sys.set_int_max_str_digits" in str(error) else error from None
    # No value is deeper than its text has brackets, so most are not walked.
    if decoded.count("[") + decoded.count("{") > DEPTH_LIMIT:
        _check_depth(value)
    if _SURROGATE.search(decoded):
        _check_text(value)
    return value


def parse_toml(text: bytes | str) -> dict[str, Any]:
    """The value of TOML text, in UTF-8 where it is bytes.

    Raises ValueError for what is no TOML, is nested deeper than `DEPTH_LIMIT`, has keys of more than `TOML_PARTS_LIMIT` parts in
    all, or a number that cannot be written.
    """
    text = _decoded(text)
    _check_keys(text)
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise _too_deep() from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        # Python's own, of a number it reads no further.
        raise _too_long(text) from None
    _check_depth(value)
    if _LONG_NUMBER.search(text):
        _check_numbers(value, text)
    return value


def _decoded(text: bytes | str) -> str:
    try:
        return text.decode("utf-8-sig") if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 (byte {error.start})") from None


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twin = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twin[:80]!r} is given twice")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _check_keys(text: str) -> None:
    """Before parsing, which keeps each beginning of a dotted key, and of all keys below a header that header."""
    if text.count(".") + text.count("=") + text.count("[") < DEPTH_LIMIT:
        return
    total = 0
    for found in _KEY.finditer(_OPAQUE.sub("0", text)):
        header, key, equals = found.groups()
        parts = key.count(".") + 1
        if parts > DEPTH_LIMIT:
            raise _too_deep()
        total += parts if header or equals else 0
    if total > TOML_PARTS_LIMIT:
        raise ValueError(f"has keys of more than {TOML_PARTS_LIMIT} parts in all")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_LIMIT + 1):
        holders = [node for node in level if isinstance(node, dict | list)]
        if not holders:
            return
        level = [item for node in holders for item in (node.values() if isinstance(node, dict) else node)]
    raise _too_deep()


def _check_text(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"text is Unicode without surrogates, and holds \\u{ord(error.object[error.start]):04x} alone") from None


def _check_numbers(value: Any, text: str) -> None:
    try:
        json.dumps(value, default=str)
    except ValueError:
        raise _too_long(text) from None


def _too_long(text: str) -> ValueError:
    """Names the line of the first number that may be meant."""
    found = _DIGITS.search(_OPAQUE.sub(lambda opaque: "\n" * opaque[0].count("\n"), text))
    place = f" (at line {found.string.count(chr(10), 0, found.start()) + 1})" if found else ""
    return ValueError(f"holds a number of more than 4300 digits{place}")


def _too_deep() -> ValueError:
    return ValueError(f"is nested deeper than {DEPTH_LIMIT} levels")


def _irregular(path: Path) -> OSError:
    return OSError(errno.EINVAL, "is not a regular file", str(path))
