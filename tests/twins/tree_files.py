"""Twin of the listing of a tree: path, digest, size and execute bit of each file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def tree_files(root: Path) -> list[tuple[str, str, int, bool]]:
    """In order of paths, for a tree whose links lead to files of it or nowhere."""
    rows = []
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder) / name
            if path.is_file():
                data, mode = path.read_bytes(), path.stat().st_mode
                rows.append((path.relative_to(root).as_posix(), hashlib.sha256(data).hexdigest(), len(data), bool(mode & 0o111)))
    return sorted(rows)
