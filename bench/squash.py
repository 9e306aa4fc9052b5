"""The owner manifest of a squashfs image beside the unpacking of its two tables alone, and beside the tools that list one.

Without mksquashfs there is no image, and no case.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from bench.case import Case, Peer, command, tool_version
from bench.data import made
from bench.floors import floor
from platoon import _native

INODES = 108_000
# The shape of a container image: files in directories of some tens, a few owners besides root.
FILES_A_DIRECTORY, DIRECTORIES_A_TREE = 24, 120
WORDS = ("core", "util", "test", "data", "base", "io", "net", "json", "http", "cache", "index", "model", "conf", "lang", "types")
ENDINGS = (".py", ".so", ".h", ".txt", ".json", ".mo", "", ".pyc")
# By compressor: the limit beside the unpacking, rdsquashfs and unsquashfs, each with that of the small run.
LIMITS = {
    "zstd": ((3.0, 3.7), (1 / 3, 0.15), (1 / 9, 0.085)),
    "gzip": ((3.0, 2.7), (1 / 3, 0.14), (1 / 9, 0.08)),
    "xz": ((1.3, 1.6), (1.0, 0.2), (1.0, 0.3)),
}
OWNERS = (0, 0, 0, 0, 0, 0, 33, 1000)


def make_archive(file: IO[bytes], inodes: int) -> None:
    """A tar of `inodes` members with its root: directories six levels deep, small files, links."""
    generator = np.random.default_rng(7)
    members = 1
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, kind, owner in tree(generator):
            member = tarfile.TarInfo(path)
            member.type, member.uid, member.gid, member.mtime = kind, owner, owner, 1_700_000_000 + members
            member.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
            member.linkname = "../target" if kind == tarfile.SYMTYPE else ""
            member.size = int(generator.integers(1, 400)) if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(generator.bytes(member.size)))
            members += 1
            if members == inodes:
                return


def tree(generator: np.random.Generator) -> Iterator[tuple[str, bytes, int]]:
    """Path, type and owner of members without end, parents first."""
    for number in range(10**6):
        parents = [f"usr{number}"]
        yield parents[0], tarfile.DIRTYPE, 0
        for _ in range(DIRECTORIES_A_TREE):
            parent = parents[int(generator.integers(len(parents)))]
            folder = f"{parent if parent.count('/') < 6 else parents[0]}/{name(generator)}"
            owner = OWNERS[int(generator.integers(len(OWNERS)))]
            parents.append(folder)
            yield folder, tarfile.DIRTYPE, owner
            for _ in range(int(generator.integers(1, 2 * FILES_A_DIRECTORY))):
                kind = tarfile.SYMTYPE if generator.random() < 0.05 else tarfile.REGTYPE
                yield f"{folder}/{name(generator)}{ENDINGS[int(generator.integers(len(ENDINGS)))]}", kind, owner


def name(generator: np.random.Generator) -> str:
    first, second, number = (int(index) for index in generator.integers(0, (len(WORDS), len(WORDS), 1_000_000)))
    return f"{WORDS[first]}_{WORDS[second]}{number:x}"


def make_image(path: Path, compressor: str, archive: Path) -> None:
    command = ["mksquashfs", "-", str(path), "-tar", "-comp", compressor, "-noappend", "-noD", "-noF", "-quiet", "-no-progress"]
    with archive.open("rb") as file:
        subprocess.run(command, check=True, stdin=file, stdout=subprocess.DEVNULL)


def manifest(path: Path) -> bytes:
    return _native.image_owners(path)[0]


def written(shown: Iterable[tuple[bytes, bytes, bytes]]) -> bytes:
    """The manifest of these: path from the root without its first slash, uid, gid."""
    owned = sorted(row for row in shown if row[1:] != (b"0", b"0"))
    header = b"# %s\n" % _native.OWNERS_RULE.encode()
    return header + b"".join(b"%s %s /%s\n" % (uid, gid, path) for path, uid, gid in owned)


def listed(ours: bytes, text: bytes) -> bool:
    """Whether `unsquashfs -lln` shows the same owners. No name of ours has a blank."""
    words = (line.split() for line in text.splitlines())
    owners = ((row[5].partition(b"/")[2], row[1].partition(b"/")) for row in words)
    return ours == written((path, uid, gid) for path, (uid, _, gid) in owners)


def described(ours: bytes, text: bytes) -> bool:
    """Whether `rdsquashfs -d` shows the same owners."""
    words = (line.split() for line in text.splitlines())
    return ours == written((row[1], row[3], row[4]) for row in words)


def tool(
    program: str,
    arguments: tuple[str, ...],
    version: tuple[str, ...],
    limits: tuple[float, float],
    same: Callable[[bytes, bytes], bool],
) -> Peer:
    label = " ".join((program, *arguments[:-1]))
    if shutil.which(program) is None:
        return Peer(label, limit=limits[0], missing=f"no {program}")
    made_by = tool_version((program, *version))
    return Peer(label, command(program, *arguments), limits[0], same, limits[1], version=made_by)


def cases(scale: float) -> list[Case]:
    if shutil.which("mksquashfs") is None:
        return []
    inodes = int(INODES * scale)
    return [case(compressor, inodes, archive_of(inodes)) for compressor in ("zstd", "gzip", "xz")]


def archive_of(inodes: int) -> Path:
    """The tree as a tar without extended headers."""

    def build(place: Path) -> None:
        with place.open("wb") as file:
            make_archive(file, inodes)

    return made(f"squash-{inodes}.tar", build)


def case(compressor: str, inodes: int, archive: Path) -> Case:
    image = made(f"squash-{inodes}.{compressor}", lambda place: make_image(place, compressor, archive))
    unpacking, rdsquashfs, unsquashfs = LIMITS[compressor]
    return Case(
        "owners of a squashfs",
        f"{inodes} inodes, {compressor}",
        lambda: manifest(image),
        (
            Peer("floor: unpacking its two tables", floor("squash_tables", str(image)), unpacking[0], small_limit=unpacking[1]),
            tool("rdsquashfs", ("-d", str(image)), ("--version",), rdsquashfs, described),
            tool("unsquashfs", ("-lln", str(image)), ("-v",), unsquashfs, listed),
        ),
        peak_limit_mb=40,
    )
