"""The digest of a file as an input of a task, by which a hold-out tells that two tasks share one; in bounded memory.

Text counts without byte order mark, line ends, trailing blanks and blank lines; a file with a zero byte near its start is binary
and counts as it is. The rule is that of `holdout.input_digest`, which tests compare with this one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from platoon.envs.harbor.holdout import BINARY_PROBE_BYTES, input_digest

CHUNK_BYTES = 1 << 20
_MARK = b"\xef\xbb\xbf"


def input_file_digest(path: Path) -> str:
    """`sha256:<hex>`. Raises OSError."""
    with path.open("rb") as file:
        head = file.read(CHUNK_BYTES)
        if len(head) < CHUNK_BYTES:
            return input_digest(head)
        if b"\0" in head[:BINARY_PROBE_BYTES]:
            digest = hashlib.sha256()
            for chunk in _chunks(head, file):
                digest.update(chunk)
        else:
            digest = _text_digest(_chunks(head.removeprefix(_MARK), file))
    return f"sha256:{digest.hexdigest()}"


def _chunks(first: bytes, file: IO[bytes]) -> Iterator[bytes]:
    yield first
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _text_digest(chunks: Iterator[bytes]) -> Any:
    """The hash of lines without trailing blanks, none empty, each ended by LF."""
    sure = hashlib.sha256()
    # Has taken blanks too that count only if more of their line follows: a line of any length is never kept.
    ahead = sure.copy()
    is_open = False
    for chunk in chunks:
        for number, part in enumerate(chunk.replace(b"\r", b"\n").split(b"\n")):
            if number:
                if is_open:
                    sure.update(b"\n")
                ahead, is_open = sure.copy(), False
            if text := part.rstrip(b" \t"):
                ahead.update(text)
                sure, is_open = ahead.copy(), True
            ahead.update(part[len(text) :])
    if is_open:
        sure.update(b"\n")
    return sure
