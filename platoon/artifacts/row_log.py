"""Row logs: files of JSON objects, one a line, appended durably (`checkpoints.jsonl` and its like).

A crash tears at most the line that was being written, which is the last one. A last line that is no JSON therefore counts as not
written: readers leave it out, and the next append cuts it off. A line that is no JSON anywhere else is a fault of the file.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from platoon.artifacts.publish import WRITABLE, fsync_directory
from platoon.artifacts.reading import naming, open_regular, parse_json, read_regular
from platoon.errors import ConfigError, Problem

BLOCK_BYTES = 1 << 16


@dataclass(frozen=True)
class Line:
    """One line of a log. number: from 1. value: any JSON value; what it must be is the reader's to judge."""

    number: int
    value: Any


def append_json_line(path: Path, value: Any) -> None:
    """Appends one JSON object as a line, durable when this returns; a torn line before it is cut off first.

    Raises ValueError for numbers that are not finite, OSError when the disk does not take it; then the log is as it was.
    """
    line = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path), os.fdopen(open_regular(path, os.O_RDWR | os.O_CREAT, WRITABLE), "r+b") as file:
        begin, last = _last_line(file)
        end = file.seek(0, os.SEEK_END)
        if last.strip() and not _is_json(last.strip()):
            end = file.truncate(begin)
            file.seek(end)
        elif last and not last.endswith(b"\n"):
            line = b"\n" + line
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


def read_json_lines(path: Path) -> list[Line]:
    """The lines of a log in order, without blank ones and a torn last one; [] without a file.

    Raises ConfigError, naming file and line, for a line before the last that is no JSON, and for a file that cannot be read.
    """
    try:
        data = read_regular(path, None)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ConfigError(Problem(f"cannot be read: {error.strerror}", file=str(path))) from error
    texts = [(number, text) for number, line in enumerate(data.split(b"\n"), 1) if (text := line.strip())]
    lines = []
    for place, (number, text) in enumerate(texts, 1):
        try:
            lines.append(Line(number, parse_json(text)))
        except ValueError as error:
            if place < len(texts):
                advice = "delete the line, or bring the file back as it was"
                raise ConfigError(Problem(f"is no JSON: {error}", file=f"{path}:{number}", advice=advice)) from error
    return lines


def _is_json(text: bytes) -> bool:
    try:
        parse_json(text)
    except ValueError:
        return False
    return True


def _last_line(file: IO[bytes]) -> tuple[int, bytes]:
    """Where the last line that is not blank begins, and all from there on."""
    begin = end = file.seek(0, os.SEEK_END)
    tail = b""
    while begin:
        step = min(BLOCK_BYTES, begin)
        begin = file.seek(begin - step)
        tail = file.read(step) + tail
        if (newline := tail.rstrip().rfind(b"\n")) >= 0:
            return end - len(tail) + newline + 1, tail[newline + 1 :]
    return 0, tail
