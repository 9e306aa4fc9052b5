"""The content hash of a task tree, and the digest of a file, beside their floors and hashlib."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np

from bench.case import Case, Peer
from bench.data import made
from bench.floors import floor
from platoon.artifacts.digests import content_hash, hex_of, sha256_file

FILES, FILES_A_DIRECTORY, MEAN_BYTES = 100_000, 40, 1850
FILE_BYTES = 2**30


def make_tree(root: Path, files: int) -> None:
    """Files of 100 to 3,600 bytes, forty a directory."""
    generator = np.random.default_rng(7)
    for index in range(files):
        folder = root / "environment" / f"d{index // FILES_A_DIRECTORY}"
        if index % FILES_A_DIRECTORY == 0:
            folder.mkdir(parents=True)
        (folder / f"f{index}").write_bytes(generator.bytes(int(generator.integers(100, 2 * MEAN_BYTES - 100))))


def make_file(path: Path, size_bytes: int) -> None:
    block = np.random.default_rng(7).bytes(2**20)
    with path.open("wb") as file:
        for _ in range(size_bytes // len(block)):
            file.write(block)


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


def cases(scale: float) -> list[Case]:
    files, size_bytes = int(FILES * scale), int(FILE_BYTES * scale)
    root = made(f"tree-{files}", lambda place: make_tree(place, files))
    file = made(f"file-{size_bytes}", lambda place: make_file(place, size_bytes))
    return [
        Case(
            "SHA-256 of a file",
            f"{size_bytes / 2**20:.0f} MiB, warm",
            lambda: sha256_file(file),
            (
                Peer(
                    "floor: read loop over the sha2 crate",
                    floor("sha256", str(file)),
                    1.05,
                    lambda ours, theirs: hex_of(ours) == theirs.decode(),
                    small_limit=1.2,
                ),
            ),
        ),
        Case(
            "content hash of a tree, one thread",
            f"{files} files of 1.8 kB, warm",
            lambda: content_hash(root, threads=1),
            (
                Peer("floor: walk, open and read (std::fs)", floor("walk", str(root)), 1.15, small_limit=1.5),
                Peer("os.walk and hashlib", lambda: with_hashlib(root), 1.0, str.__eq__, small_limit=0.6),
            ),
        ),
        Case(
            "content hash of a tree, two threads",
            f"{files} files of 1.8 kB, warm",
            lambda: content_hash(root, threads=2),
            (Peer("one thread", lambda: content_hash(root, threads=1), 0.6, str.__eq__, by="wall"),),
        ),
    ]
