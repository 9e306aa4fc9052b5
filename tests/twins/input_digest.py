"""Twin of the digest of a file as an input of a task (`docs/reference/content-hash.md`)."""

from __future__ import annotations

import hashlib


def input_digest(data: bytes) -> str:
    """64 hex digits of a whole file's bytes."""
    if b"\0" not in data[:8000]:
        lines = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        data = b"".join(line + b"\n" for line in (line.rstrip(b" \t") for line in lines) if line)
    return hashlib.sha256(data).hexdigest()
