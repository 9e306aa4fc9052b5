"""How soon a fault in a header is told, and what memory that takes, however large the file behind it is.

Each case reads damaged files, all of the size of an image; its limit is what one of them may take. The errors are compared with the
words that they must hold, so that a file that is refused for something else is no case.
"""

from __future__ import annotations

import gzip
import os
import struct
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from bench.case import Case, Peer
from bench.data import made
from platoon import _native

IMAGE_BYTES = 1 << 30
LIMIT_MS, COUNTS_LIMIT_MS = 50.0, 10.0
PEAK_LIMIT_MB = 40
CORPUS = Path(__file__).resolve().parents[1] / "native/fuzz/corpus"

Damaged = Mapping[str, bytes]
"""The beginning of a file by the words that its error holds."""


def changed(data: bytes, layout: str, offset: int, value: int) -> bytes:
    copy = bytearray(data)
    struct.pack_into(layout, copy, offset, value)
    return bytes(copy)


def squashfs() -> Damaged:
    image = (CORPUS / "squash_owners/zstd.sqfs").read_bytes()
    return {
        "is expected at byte 0": changed(image, "<I", 0, 0),
        "the compressor lzo": changed(image, "<H", 20, 3),
        "superblock at byte 4": changed(image, "<I", 4, 0),
        "id table": changed(image, "<Q", 48, 1 << 40),
        "inode table": changed(image, "<Q", 64, 1 << 40),
        "directory table": changed(image, "<Q", 72, 1 << 40),
    }


def sif() -> Damaged:
    image = (CORPUS / "sif_objects/squashfs.sif").read_bytes()
    return {
        "descriptor": changed(image, "<q", 88, 1 << 40),
        "do not fit": changed(image, "<q", 96, 1 << 50),
    }


def layers() -> Damaged:
    plain = header("0", 5)
    packed = pa.Codec("zstd").compress(plain, asbytes=True)
    return {
        "no header begins here": b"x" * 512,
        'entry "member" at byte 0: uid is': header("0", 5, uid=b"no digit"),
        "size is 1099511627776, above 1048576": header("x", 1 << 40),
        "too early in its data": header("0", 1 << 40),
        "gzip at byte": gzip.compress(plain)[:3] + b"\xff" * 600,
        # Its frame asks for a window of 3.75 TiB.
        "zstd at byte 0": packed[:4] + b"\0\xff" + bytes(600),
    }


def header(kind: str, size: int, uid: bytes = b"0000000\0") -> bytes:
    """A header of GNU's, which says sizes above 8 GiB in base 256."""
    member = tarfile.TarInfo("member")
    member.type, member.size = kind.encode(), size
    block = bytearray(member.tobuf(tarfile.GNU_FORMAT)[:512])
    block[108:116], block[148:156] = uid, b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def refused(call: Callable[[Path], object], path: Path) -> str:
    try:
        call(path)
    except (_native.DataError, _native.UnsupportedError) as error:
        return str(error)
    raise AssertionError(f"{path} was read")


def all_refused(call: Callable[[Path], object], files: Mapping[str, Path]) -> dict[str, str]:
    """By the words that must be in them, the errors of files."""
    found = {words: refused(call, path) for words, path in files.items()}
    wrong = {words: error for words, error in found.items() if words not in error}
    assert not wrong, wrong
    return found


def put(place: Path, start: bytes, size_bytes: int | None = None) -> None:
    place.write_bytes(start)
    os.truncate(place, size_bytes or len(start))


def written(kind: str, number: int, start: bytes) -> Path:
    return made(f"damaged-{kind}-{number}", lambda place: put(place, start, IMAGE_BYTES))


def cases(scale: float) -> list[Case]:
    calls: dict[str, tuple[Callable[[Path], object], Damaged]] = {
        "squashfs": (_native.image_owners, squashfs()),
        "SIF": (_native.image_owners, sif()),
        "layer": (lambda path: _native.layer_owners([(path, None, None, None, None)]), layers()),
    }
    image = (CORPUS / "squash_owners/zstd.sqfs").read_bytes()
    few = made("damaged-counts", lambda place: put(place, changed(image, "<H", 26, 65535)))
    found = [
        case(
            f"all {len(damaged)} of a {kind}'s",
            call,
            {words: written(kind, at, start) for at, (words, start) in enumerate(damaged.items())},
        )
        for kind, (call, damaged) in calls.items()
    ]
    return [
        *found,
        case(f"65,535 ids in a squashfs of {len(image)} bytes", _native.squash_entries, {"do not fit": few}, COUNTS_LIMIT_MS),
    ]


def case(data: str, call: Callable[[Path], object], files: Mapping[str, Path], limit_ms: float = LIMIT_MS) -> Case:
    peers = (Peer("the time one may take", limit=1.0, by="wall", fixed_ms=limit_ms),)
    return Case("a fault in a header", data, lambda: all_refused(call, files), peers, PEAK_LIMIT_MB)
