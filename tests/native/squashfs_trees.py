"""Trees of known owners as tar archives, and the squashfs images that the two families of tools make of them."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

COMPRESSORS = ("gzip", "xz", "zstd", "lz4")
WRITERS = ("mksquashfs", "tar2sqfs")

Owners = dict[bytes, tuple[int, int]]


@dataclass(frozen=True)
class Node:
    """One member of the archive. link: the target of a symbolic or hard link."""

    path: bytes
    kind: bytes = tarfile.REGTYPE
    uid: int = 0
    gid: int = 0
    link: bytes = b""
    data: bytes = b""
    xattrs: dict[str, str] = field(default_factory=dict)


def owners_of(nodes: Iterable[Node]) -> Owners:
    """What an image of these must give: every path that is not 0:0, a hard link with its target's owner."""
    by_path = {node.path: node for node in nodes}
    owners: Owners = {}
    for path, node in by_path.items():
        shown = by_path[node.link] if node.kind == tarfile.LNKTYPE else node
        if (shown.uid, shown.gid) != (0, 0):
            owners[b"/" + path] = (shown.uid, shown.gid)
    return owners


def archive(nodes: Iterable[Node]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape") as tar:
        for node in nodes:
            member = tarfile.TarInfo(node.path.decode("utf-8", "surrogateescape"))
            member.type, member.uid, member.gid, member.size = node.kind, node.uid, node.gid, len(node.data)
            member.linkname = node.link.decode("utf-8", "surrogateescape")
            member.mode = 0o755 if node.kind == tarfile.DIRTYPE else 0o644
            member.pax_headers = {f"SCHILY.xattr.{name}": value for name, value in node.xattrs.items()}
            tar.addfile(member, io.BytesIO(node.data))
    return buffer.getvalue()


def write_image(tar: bytes, path: Path, writer: str, compressor: str, *options: str) -> Path:
    if writer == "mksquashfs":
        command = ["mksquashfs", "-", str(path), "-tar", "-comp", compressor, "-noappend", "-quiet", "-no-progress", *options]
    else:
        command = ["tar2sqfs", "--quiet", "--force", "--compressor", compressor, *options, str(path)]
    made = subprocess.run(command, input=tar, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert made.returncode == 0, made.stdout.decode()
    return path


def as_owners(columns: dict[str, Any]) -> Owners:
    """The columns of `_native.squash_entries` by path."""
    ends = columns["ends"].tolist()
    paths = [columns["paths"][start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert len(set(paths)) == len(paths)
    return dict(zip(paths, zip(columns["uids"].tolist(), columns["gids"].tolist(), strict=True), strict=True))


def random_tree(seed: int, entries: int) -> list[Node]:
    """Directories, files, links, devices and FIFOs of a few owners, in names of any bytes but newlines and `->`."""
    generator = np.random.default_rng(seed)
    directories = [b""]
    nodes: dict[bytes, Node] = {}
    files: list[bytes] = []
    letters = b"abcxyz019._ -+~#\xc3\xa9\xff"
    kinds = (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.LNKTYPE)
    for _ in range(entries):
        parent = directories[int(generator.integers(len(directories)))]
        name = bytes(generator.choice(list(letters), int(generator.integers(1, 24))).tolist())
        path = parent + name
        if name in (b".", b"..") or path in nodes:
            continue
        chosen = int(generator.integers(20))
        kind = kinds[chosen] if chosen < len(kinds) else tarfile.REGTYPE
        uid, gid = (int(number) for number in generator.choice([0, 0, 0, 33, 1000, 70_000, 4_294_967_294], 2))
        if kind == tarfile.LNKTYPE and not files:
            continue
        link = files[int(generator.integers(len(files)))] if kind == tarfile.LNKTYPE else b"x -> y"
        is_link = kind in (tarfile.LNKTYPE, tarfile.SYMTYPE)
        data = generator.bytes(int(generator.integers(0, 300))) if kind == tarfile.REGTYPE else b""
        nodes[path] = Node(path, kind, uid, gid, link if is_link else b"", data)
        if kind == tarfile.DIRTYPE:
            directories.append(path + b"/")
        elif kind == tarfile.REGTYPE:
            files.append(path)
    return list(nodes.values())
