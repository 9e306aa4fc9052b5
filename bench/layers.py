"""The owner manifest of a layer beside reading or decompressing it alone, and beside Python's tarfile.

Two layers, each with an extended header before each member. One is the tree of the squashfs images, byte for byte, files of 1 to
399 bytes of noise: three quarters of what there is to decompress are headers, which compress to nearly nothing. The other has the
same paths, with files of the sizes of the tree hash's, of words or, each fourth, of noise, as images have. Digests are not asked
for, but in the last case: a descriptor's cost a SHA-256 of what is stored and one of what is in it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.case import FLOOR, Bound, Case, Peer
from bench.data import made
from bench.floors import floor
from bench.squash import archive_of, tree, written
from platoon import _native

MEMBERS = 108_000
MEAN_BYTES, SMALLEST = 1850, 100
GZIP_LEVEL, ZSTD_LEVEL = 6, 3
PEAK_LIMIT_MB = 40
SECTION = "What bounds the reading of layers"

Extra = Mapping[str, tuple[float, float | None]]
"""By peer: the limit of the small run, and the ratio that the page explains where the limit is missed."""

SAME: Extra = {
    "read": (9.0, None),
    "tarfile, plain": (1 / 40, None),
    "libzstd": (3.2, 2.6),
    "libdeflate": (1.7, None),
    "zlib-rs": (2.1, 1.7),
    "tarfile, gzip": (1 / 30, None),
}
USUAL: Extra = {
    "read": (4.2, None),
    "tarfile, plain": (1 / 28, None),
    "libzstd": (1.9, None),
    "libdeflate": (1.3, None),
    "zlib-rs": (1.7, None),
    "tarfile, gzip": (1 / 13, 1 / 16),
}


def make_layer(place: Path, members: int, largest: int) -> None:
    """Directories, files of up to `largest` bytes, links, each with a PAX header of the time that its header cannot hold."""
    generator = np.random.default_rng(7)
    words = [generator.bytes(int(length)).hex().encode() for length in generator.integers(1, 5, 4000)]
    text = b" ".join(words[index] for index in np.minimum(generator.zipf(1.3, 600_000), len(words)) - 1)
    pools = (text, text, text, generator.bytes(len(text)))
    with tarfile.open(place, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for number, (path, kind, owner) in enumerate(tree(generator), 1):
            member = tarfile.TarInfo(path)
            member.type, member.uid, member.gid = kind, owner, owner
            member.pax_headers = {"mtime": f"{1_700_000_000 + number}.{int(generator.integers(1, 10**9)):09}"}
            member.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
            member.linkname = "../target" if kind == tarfile.SYMTYPE else ""
            member.size = int(generator.integers(SMALLEST, largest)) if kind == tarfile.REGTYPE else 0
            start = int(generator.integers(len(text) - largest))
            tar.addfile(member, io.BytesIO(pools[number % len(pools)][start : start + member.size]))
            if number == members:
                return


def make_same_layer(place: Path, archive: Path) -> None:
    """The members of another tar, each with a PAX header of the time that its header cannot hold."""
    generator = np.random.default_rng(7)
    with tarfile.open(archive) as given, tarfile.open(place, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for number, member in enumerate(given, 1):
            member.pax_headers = {"mtime": f"{1_700_000_000 + number}.{int(generator.integers(1, 10**9)):09}"}
            tar.addfile(member, given.extractfile(member) if member.isreg() else None)


def make_gzip(place: Path, layer: Path) -> None:
    place.write_bytes(gzip.compress(layer.read_bytes(), GZIP_LEVEL, mtime=0))


def make_zstd(place: Path, layer: Path) -> None:
    codec = pa.Codec("zstd", compression_level=ZSTD_LEVEL)
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
    largest = 2 * MEAN_BYTES - SMALLEST
    same = made(f"layer-{members}-same.tar", lambda place: make_same_layer(place, archive_of(members)))
    usual = made(f"layer-{members}.tar", lambda place: make_layer(place, members, largest))
    of_usual = cases_of(usual, f"{members} members with PAX headers, files of {MEAN_BYTES} bytes", USUAL)
    gz = usual.with_suffix(".tar.gz")
    digests = (digest_of(gz), digest_of(usual))
    return [
        *cases_of(same, f"the tree of the squashfs images, {members} members with PAX headers", SAME),
        *of_usual,
        Case(
            "owners of a layer, digest and diff_id verified",
            of_usual[-1].data,
            lambda: manifest(gz, digests),
            (Peer("floor: zlib-rs alone", floor("inflate_streamed", str(gz)), small_limit=3.0),),
            PEAK_LIMIT_MB,
        ),
    ]


def cases_of(layer: Path, data: str, extra: Extra) -> list[Case]:
    """A layer plain and compressed."""
    gz = made(f"{layer.name}.gz", lambda place: make_gzip(place, layer))
    zst = made(f"{layer.name}.zst", lambda place: make_zstd(place, layer))

    def peer(key: str, name: str, run: Callable[[], Any], limit: float) -> Peer:
        small_limit, explained = extra[key]
        bound = Bound(SECTION, explained) if explained else None
        return Peer(name, run, limit, None if name.startswith(FLOOR) else bytes.__eq__, small_limit, bound)

    peers = {
        layer: (
            peer("read", "floor: reading it", floor("read", str(layer)), 3.0),
            peer("tarfile, plain", "tarfile", partial(with_tarfile, layer), 1 / 25),
        ),
        zst: (peer("libzstd", "floor: libzstd alone", floor("unzstd", str(zst)), 1.5),),
        gz: (
            peer("libdeflate", "floor: libdeflate alone, all of it in memory", floor("inflate_whole", str(gz)), 1.3),
            peer("zlib-rs", "floor: zlib-rs alone", floor("inflate_streamed", str(gz)), 1.3),
            peer("tarfile, gzip", "tarfile", partial(with_tarfile, gz), 1 / 25),
        ),
    }
    data = f"{data}, {layer.stat().st_size / 2**20:.0f} MiB"
    return [
        Case("owners of a layer", f"{data}, {how}", partial(manifest, path), peers[path], PEAK_LIMIT_MB)
        for path, how in ((layer, "plain"), (zst, "zstd"), (gz, "gzip"))
    ]
