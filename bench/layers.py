"""The owner manifest of a layer beside reading or decompressing it alone, and beside Python's tarfile.

The tree is that of the squashfs images, as a tar with an extended header before each member. Digests are not asked for, but in the
last case: a descriptor's cost a SHA-256 of what is stored and one of what is in it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.case import Case, Peer
from bench.data import made
from bench.floors import floor
from bench.squash import tree, written
from platoon import _native

MEMBERS = 108_000
GZIP_LEVEL, ZSTD_LEVEL = 6, 3


def make_layer(place: Path, members: int) -> None:
    """Directories, small files and links, each with a PAX header of the time that its header cannot hold."""
    generator = np.random.default_rng(7)
    with tarfile.open(place, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for number, (path, kind, owner) in enumerate(tree(generator), 1):
            member = tarfile.TarInfo(path)
            member.type, member.uid, member.gid = kind, owner, owner
            member.pax_headers = {"mtime": f"{1_700_000_000 + number}.{int(generator.integers(1, 10**9)):09}"}
            member.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
            member.linkname = "../target" if kind == tarfile.SYMTYPE else ""
            member.size = int(generator.integers(1, 400)) if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(generator.bytes(member.size)))
            if number == members:
                return


def make_gzip(place: Path, layer: Path) -> None:
    place.write_bytes(gzip.compress(layer.read_bytes(), GZIP_LEVEL, mtime=0))


def make_zstd(place: Path, layer: Path) -> None:
    import pyarrow

    codec = pyarrow.Codec("zstd", compression_level=ZSTD_LEVEL)
    place.write_bytes(codec.compress(layer.read_bytes(), asbytes=True))


def manifest(path: Path, digests: Sequence[str | None] = (None, None)) -> bytes:
    return _native.layer_owners([(path, None, None, *digests)])[0]


def with_tarfile(path: Path) -> bytes:
    """The same manifest, for a layer without whiteouts and hard links whose paths are each named once."""
    with tarfile.open(path) as tar:
        return written((member.name.encode(), b"%d" % member.uid, b"%d" % member.gid) for member in tar)


def digest_of(path: Path) -> str:
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def cases(scale: float) -> list[Case]:
    members = int(MEMBERS * scale)
    layer = made(f"layer-{members}.tar", lambda place: make_layer(place, members))
    gz = made(f"layer-{members}.tar.gz", lambda place: make_gzip(place, layer))
    zst = made(f"layer-{members}.tar.zst", lambda place: make_zstd(place, layer))
    kernel, data = "owners of a layer", f"{members} members with PAX headers"
    whole = (digest_of(gz), digest_of(layer))
    return [
        Case(
            kernel,
            f"{data}, plain",
            lambda: manifest(layer),
            (
                Peer("floor: reading it", floor("read", str(layer)), 3.0),
                Peer("tarfile", lambda: with_tarfile(layer), 1 / 25, bytes.__eq__),
            ),
            peak_limit_mb=40,
        ),
        Case(
            kernel,
            f"{data}, zstd",
            lambda: manifest(zst),
            (Peer("floor: libzstd alone", floor("unzstd", str(zst)), 1.5, small_limit=2.0),),
            peak_limit_mb=40,
        ),
        Case(
            kernel,
            f"{data}, gzip",
            lambda: manifest(gz),
            (
                Peer("floor: libdeflate alone, all in memory", floor("inflate_whole", str(gz)), 1.3),
                Peer("floor: zlib-rs alone, streaming", floor("inflate_streamed", str(gz)), 1.3),
                Peer("tarfile", lambda: with_tarfile(gz), None, bytes.__eq__),
            ),
            peak_limit_mb=40,
        ),
        Case(
            f"{kernel}, digest and diff_id verified",
            f"{data}, gzip",
            lambda: manifest(gz, whole),
            (Peer("floor: zlib-rs alone, streaming", floor("inflate_streamed", str(gz))),),
            peak_limit_mb=40,
        ),
    ]
