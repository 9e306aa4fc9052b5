"""The content hash of a task tree beside hashlib."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np

from bench.case import Case
from platoon.artifacts.digests import content_hash

FILES = 3000


def make_tree(files: int) -> Path:
    """A seeded tree of files of about 2 kB, forty a directory, removed when the process ends."""
    root = Path(tempfile.mkdtemp(prefix="bench-tree-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    generator = np.random.default_rng(7)
    for index in range(files):
        folder = root / "environment" / f"d{index // 40}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{index}").write_bytes(generator.bytes(int(generator.integers(100, 4000))))
    return root


def with_hashlib(root: Path) -> str:
    """The same digest by os.walk and hashlib, without patterns and without care for links."""
    digests: dict[str, str] = {}
    prefix = len(str(root)) + 1
    for folder, _, names in os.walk(root / "environment"):
        for name in names:
            path = f"{folder}/{name}"
            with open(path, "rb") as file:  # noqa: PTH123  because a Path a file would slow the peer
                digests[path[prefix:]] = hashlib.sha256(file.read()).hexdigest()
    outer = hashlib.sha256()
    for path in sorted(digests):
        outer.update(path.encode() + b"\0" + digests[path].encode() + b"\n")
    return f"sha256:{outer.hexdigest()}"


def cases() -> list[Case]:
    root = make_tree(FILES)
    return [
        Case(
            "content hash",
            f"{FILES} files of 2 kB, warm",
            "os.walk and hashlib",
            lambda: content_hash(root),
            lambda: with_hashlib(root),
            str.__eq__,
            1.0,
        )
    ]
