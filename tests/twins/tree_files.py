"""Twin of the listings of a tree: path, digest, size and execute bit of each file; or its names and where they lead."""

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


def tree_names(root: Path, below: str) -> list[tuple[str, str | None]]:
    """In order of paths, for a tree whose links have `..` at the start of their targets alone."""
    rows = []
    for folder, folders, names in os.walk(root / below):
        for path in (Path(folder) / name for name in [*folders, *names]):
            if path.is_symlink() or path.is_file():
                rows.append((path.relative_to(root / below).as_posix(), _leads(root, path)))
    return sorted(rows)


def _leads(root: Path, path: Path) -> str | None:
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
        return "outside"
    return "directory" if path.is_dir() else "file" if path.is_file() else None
