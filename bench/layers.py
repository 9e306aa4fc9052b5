"""The owner manifest of a layer beside reading or decompressing it alone, and beside Python's tarfile.

The tree is that of the squashfs images, as a tar with an extended header before each member, and with files of the sizes of the
tree hash's, of words or, each fourth, of noise. A layer whose files are all but empty is shown too: its headers are then nearly all
that there is to decompress, and compress to nearly nothing. Digests are not asked for, but in the last case: a descriptor's cost a
SHA-256 of what is stored and one of what is in it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.case import Case, Peer
from bench.data import made
from bench.floors import floor
from bench.squash import tree, written
from platoon import _native

MEMBERS = 108_000
MEAN_BYTES, SMALLEST = 1850, 100
GZIP_LEVEL, ZSTD_LEVEL = 6, 3
PEAK_LIMIT_MB = 40


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
            member.size = int(generator.integers(min(SMALLEST, largest - 1), largest)) if kind == tarfile.REGTYPE else 0
            start = int(generator.integers(len(text) - largest))
            tar.addfile(member, io.BytesIO(pools[number % len(pools)][start : start + member.size]))
            if number == members:
                return


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
    layer = made(f"layer-{members}.tar", lambda place: make_layer(place, members, largest))
    gz = made(f"layer-{members}.tar.gz", lambda place: make_gzip(place, layer))
    zst = made(f"layer-{members}.tar.zst", lambda place: make_zstd(place, layer))
    empty = made(f"layer-{members}-empty.tar", lambda place: make_layer(place, members, 2))
    empty_zst = made(f"layer-{members}-empty.tar.zst", lambda place: make_zstd(place, empty))
    data = f"{members} members with PAX headers, {layer.stat().st_size / 2**20:.0f} MiB"
    stored = {"plain": layer, "zstd": zst, "gzip": gz}
    peers = {
        "plain": (
            Peer("floor: reading it", floor("read", str(layer)), 3.0),
            Peer("tarfile", lambda: with_tarfile(layer), 1 / 25, bytes.__eq__),
        ),
        "zstd": (Peer("floor: libzstd alone", floor("unzstd", str(zst)), 1.5, small_limit=2.0),),
        "gzip": (
            Peer("floor: libdeflate alone, all of it in memory", floor("inflate_whole", str(gz)), 1.3),
            Peer("floor: zlib-rs alone", floor("inflate_streamed", str(gz)), 1.3),
            Peer("tarfile", lambda: with_tarfile(gz), None, bytes.__eq__),
        ),
    }
    cases = [
        Case("owners of a layer", f"{data}, {how}", lambda path=path: manifest(path), peers[how], PEAK_LIMIT_MB)
        for how, path in stored.items()
    ]
    headers = f"{members} members with PAX headers, files of a byte"
    digests = (digest_of(gz), digest_of(layer))
    return [
        *cases,
        Case(
            "owners of a layer",
            f"{headers}, plain",
            lambda: manifest(empty),
            (Peer("floor: reading it", floor("read", str(empty)), 3.0, small_limit=6.0),),
            PEAK_LIMIT_MB,
        ),
        Case(
            "owners of a layer",
            f"{headers}, zstd",
            lambda: manifest(empty_zst),
            (Peer("floor: libzstd alone", floor("unzstd", str(empty_zst))),),
            PEAK_LIMIT_MB,
        ),
        Case(
            "owners of a layer, digest and diff_id verified",
            f"{data}, gzip",
            lambda: manifest(gz, digests),
            (Peer("floor: zlib-rs alone", floor("inflate_streamed", str(gz))),),
            PEAK_LIMIT_MB,
        ),
    ]
