"""The site's content-addressed cache: `<root>/<kind>/<first two hex digits>/<key>[.<suffix>]`.

A key is the hex part of a SHA-256 digest. An entry never changes once it is there; who wants to fill it writes beside and renames
(`artifacts.publish`). Nothing here deletes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

KEY = re.compile(r"[0-9a-f]{64}")


def key_of(digest: str) -> str:
    """The hex part of `sha256:<hex>`. Raises ValueError for anything else."""
    algorithm, _, key = digest.partition(":")
    if algorithm != "sha256" or not KEY.fullmatch(key):
        raise ValueError(f"not a sha256 digest: {digest!r}")
    return key


@dataclass(frozen=True)
class Store:
    """A cache root shared by runs, users of a site, and nodes."""

    root: Path

    def path(self, kind: str, digest: str, suffix: str = "") -> Path:
        """Where the entry of a `sha256:<hex>` digest lies, whether it is there or not."""
        key = key_of(digest)
        return self.root / kind / key[:2] / f"{key}{suffix}"
