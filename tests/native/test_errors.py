"""Each kind of error of each crate becomes one exception: a row a kind, and no kind without a row.

Of the faults of an entry of a tar, on which the exception depends, each has a row too: `Entry.<fault>`, or `Tar.<fault>` for those
that no entry has.
"""

from __future__ import annotations

import io
import math
import re
import struct
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from platoon import _native
from platoon._native import DataError, ShapeError, UnsupportedError
from platoon.rows.merge import TrajectoryCalls, build_block
from tests.native.sif_files import oci_sif

pytestmark = pytest.mark.unit

Make = Callable[[Path], object]


def squashfs(**changes: tuple[str, int, int]) -> Make:
    """Lists the owners of a small image after values were written over its superblock: (struct format, offset, value)."""

    def call(place: Path) -> object:
        corpus = Path(__file__).resolve().parents[2] / "native/fuzz/corpus/squash_owners/zstd.sqfs"
        data = bytearray(corpus.read_bytes())
        for layout, offset, value in changes.values():
            struct.pack_into(layout, data, offset, value)
        (place / "image").write_bytes(data)
        return _native.squash_entries(place / "image")

    return call


def large_json(place: Path) -> object:
    (place / "image").write_bytes(oci_sif([], {"a": " " * (5 << 20)}))
    return _native.oci_sif(place / "image")


def layer(data: bytes, media_type: str | None = None, size: int | None = None, digest: str | None = None) -> Make:
    def call(place: Path) -> object:
        (place / "layer").write_bytes(data)
        return _native.layer_owners([(place / "layer", media_type, size, digest, None)])

    return call


END = bytes(1024)


def tar(size_bytes: int = 0) -> bytes:
    return block(data=bytes(size_bytes)) + END


def block(name: bytes = b"entry", kind: bytes = b"0", data: bytes = b"", link: bytes = b"", uid: bytes = b"0000001\0") -> bytes:
    """A header and its data, in whole blocks."""
    header = bytearray(512)
    fields = {0: name, 100: b"0000644\0", 108: uid, 116: b"0000001\0", 124: b"%011o\0" % len(data), 156: kind, 157: link}
    for at, value in {**fields, 136: b"0\0", 148: b" " * 8, 257: b"ustar\x0000"}.items():
        header[at : at + len(value)] = value
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + data + bytes(-len(data) % 512)


def linked(depth: int, target: str, members: Sequence[str]) -> bytes:
    """Links `l0`, `l1` and so on, each by `target` to the one before, and members that are not root's."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for number in range(depth):
            member = tarfile.TarInfo(f"l{number}")
            member.type, member.linkname = tarfile.SYMTYPE, target.format(f"l{number - 1}" if number else "a")
            archive.addfile(member)
        for name in members:
            member = tarfile.TarInfo(name)
            member.uid = 1
            archive.addfile(member)
    return data.getvalue()


def long_paths(place: Path) -> object:
    """15 names of 4,000 bytes before each of 5,000."""
    return layer(linked(15, "{}/" + "x" * 4000, [f"l14/{number}" for number in range(5000)]))(place)


def task(make: Callable[[Path], object], call: Callable[[Path], object] = _native.content_hash) -> Make:
    def run(place: Path) -> object:
        (place / "tests").mkdir()
        make(place)
        return call(place)

    return run


def publish(make: Callable[[Path], object]) -> Make:
    def run(place: Path) -> object:
        (place / "source/tests").mkdir(parents=True)
        (place / "base").mkdir()
        make(place)
        return _native.publish_task(place / "source", place / "base", "tasks", ".tmp/one", set())

    return run


def scale(weights: Any, offsets: tuple[int, ...] = (0, 1)) -> Make:
    return lambda _: _native.scale_rows(np.zeros(1, np.float32), np.array(offsets), np.asarray(weights, np.float64))


STALE = (np.zeros(1, np.int64), np.array([3], np.uint16), np.zeros(1, np.uint32), 1)
PAIRS: dict[tuple[str, str], tuple[Make, type[Exception], str]] = {
    ("digest", "Io"): (lambda place: _native.content_hash(place / "absent"), FileNotFoundError, "absent"),
    ("digest", "NotAFile"): (_native.sha256_file, DataError, "not a regular file"),
    ("digest", "NotWithin"): (lambda place: _native.tree_files(place, ["../x"]), DataError, r'"../x" is no relative path'),
    ("digest", "Changed"): (lambda _: _native.git_blob_sha1("/proc/self/status"), DataError, "changed while it was read"),
    ("digest", "EscapingLink"): (task(lambda place: (place / "tests/x").symlink_to("/etc")), DataError, "tests/x: a link to"),
    ("digest", "LinkedDirectory"): (task(lambda place: (place / "steps").symlink_to("tests")), UnsupportedError, "steps: a link"),
    ("digest", "LinkedPlace"): (publish(lambda place: (place / "base/tasks").symlink_to(place)), DataError, "base/tasks: a link"),
    ("digest", "LinkToNoFile"): (publish(lambda place: (place / "source/tests/x").symlink_to("y")), DataError, "tests/x: a link"),
    ("digest", "NameNotUtf8"): (task(lambda place: (place / "tests/\udcff").touch()), UnsupportedError, "not UTF-8"),
    ("digest", "TextNotUtf8"): (
        task(lambda place: (place / ".gitignore").write_bytes(b"a\xff")),
        DataError,
        ".gitignore: not UTF-8 from byte 1",
    ),
    ("digest", "TooDeep"): (
        task(lambda place: (place / "tests" / Path(*["d"] * 300)).mkdir(parents=True)),
        UnsupportedError,
        "deeper than 256",
    ),
    ("digest", "Limit"): (
        task(lambda place: (place / ".gitignore").write_bytes(bytes(300_000))),
        UnsupportedError,
        ".gitignore: 300000 bytes of patterns, where at most 262144",
    ),
    ("digest", "Pattern"): (lambda _: _native.is_ignored("a\n!", "a"), DataError, "line 2"),
    ("rows", "Length"): (scale([]), ShapeError, "weights: 0 entries where 1"),
    ("rows", "Offsets"): (scale([1.0], (1, 1)), ShapeError, r"offsets\[0\] is 1"),
    ("rows", "Value"): (lambda _: _native.stale_rows(*STALE, [0], [None]), DataError, r"row_policy\[0\] is 3"),
    ("rows", "Rule"): (lambda _: _native.dense_keys([]), DataError, "a key needs"),
    ("rows", "Within"): (
        lambda _: build_block([TrajectoryCalls(0, 0, "root", 0, math.nan, [])], (), ("root",)),
        DataError,
        r"trajectories\[0\].row_reward\[0\] is NaN",
    ),
    ("squash", "Io"): (lambda place: _native.squash_entries(place / "absent"), FileNotFoundError, "absent"),
    ("squash", "NotAFile"): (_native.squash_entries, DataError, "not a regular file"),
    ("squash", "Magic"): (squashfs(magic=("<I", 0, 0)), DataError, "is expected at byte 0"),
    ("squash", "Unsupported"): (squashfs(compressor=("<H", 20, 3)), UnsupportedError, "is not read here"),
    ("squash", "OutOfFile"): (squashfs(used=("<Q", 40, 1 << 40)), DataError, "do not fit"),
    ("squash", "Damaged"): (squashfs(root=("<Q", 32, 0xFFFF)), DataError, "at byte"),
    ("squash", "Limit"): (large_json, UnsupportedError, "more than"),
    ("layers", "Io"): (
        lambda place: _native.layer_owners([(place / "absent", None, None, None, None)]),
        FileNotFoundError,
        "absent",
    ),
    ("layers", "NotAFile"): (
        lambda place: _native.layer_owners([(place, None, None, None, None)]),
        DataError,
        "not a regular file",
    ),
    ("layers", "Unsupported"): (layer(b"BZh91AY&SY" + bytes(600)), UnsupportedError, "is not read here"),
    ("layers", "MediaType"): (
        layer(tar(), "application/vnd.oci.image.layer.v1.tar+zstd"),
        DataError,
        "the media type",
    ),
    ("layers", "Compressed"): (layer(b"\x1f\x8b\x08\0" + bytes(600)), DataError, "gzip at byte"),
    ("layers", "Size"): (layer(tar(), size=1), DataError, "where the manifest says 1"),
    ("layers", "OutOfFile"): (
        lambda _: _native.layer_owners([((__file__, "x", 2**64 - 1, 5), None, None, None, None)]),
        DataError,
        "5 bytes at byte 18446744073709551615 do not fit in a file of",
    ),
    ("layers", "Digest"): (layer(tar(), digest=f"sha256:{'0' * 64}"), DataError, "where sha256:000"),
    ("layers", "Limit"): (long_paths, UnsupportedError, "more than 268435456 bytes of paths"),
    ("layers", "Tar.NoTar"): (layer(b"x" * 1024), DataError, "tar at byte 0: no header begins here"),
    ("layers", "Tar.Checksum"): (layer(block() + block()[:-1] + b"x" + END), DataError, "tar at byte 512: the checksum is"),
    ("layers", "Tar.NoEnd"): (layer(block()), DataError, "tar at byte 512: ends without the blocks of zeros"),
    ("layers", "Tar.LoneZeroBlock"): (layer(block() + bytes(512) + block()), DataError, "tar at byte 512: a lone block of zeros"),
    ("layers", "Tar.AfterEnd"): (layer(tar() + b"x" * 512), DataError, "tar at byte 1536: something follows the end"),
    ("layers", "Tar.Dangling"): (layer(block(kind=b"L", data=b"x\0") + END), DataError, "tar at byte 1024: an extended header"),
    **{
        ("layers", f"Entry.{fault}"): (layer(data + END), exception, rf'entry "{name}" at byte \d+: {text}')
        for fault, (data, exception, name, text) in {
            "Number": (block(uid=b"zzzzzzz\0"), DataError, "entry", 'uid is "zzzzzzz.*", no number'),
            "Above": (block(uid=b"\x80\0\0\0\xff\xff\xff\xff"), DataError, "entry", "uid is 4294967295, above 4294967294"),
            "Kind": (block(kind=b"M"), UnsupportedError, "entry", "type 'M' is not read here"),
            "Cut": (tar(size_bytes=5000)[:1024], DataError, "entry", "ends [0-9]+ bytes too early in its data"),
            "Twice": (2 * block(b"two", b"L", b"x\0"), DataError, "two", "two headers give its name"),
            "Record": (block(b"pax", b"x", b"nonsense\n"), DataError, "pax", "a record begins with no length"),
            "Key": (block(b"pax", b"g", b"9 path=a\n"), DataError, "pax", "the record path cannot be the same"),
            "Name": (block(b"a/../b"), DataError, "a/../b", "the name climbs"),
            "Target": (block(kind=b"2"), DataError, "entry", "the link target is empty"),
            "Sparse": (
                block(b"pax", b"x", b"22 GNU.sparse.major=2\n22 GNU.sparse.minor=0\n") + block(),
                UnsupportedError,
                "entry",
                r"sparse format 2\.0 is not read here",
            ),
            "LinkLoop": (block(b"l", b"2", link=b"l") + block(b"l/x"), DataError, "l/x", "its path passes more than 40"),
            "LinkNames": (
                linked(39, "a/../" * 800 + "{}", [f"l38/{number}/x" for number in range(30)]).rstrip(b"\0") + bytes(512),
                DataError,
                "l38/[0-9]+/x",
                "to find its place takes more names",
            ),
        }.items()
    },
}


@pytest.mark.parametrize(("crate", "kind"), sorted(PAIRS))
def test_a_kind_of_error_becomes_its_exception(tmp_path: Path, crate: str, kind: str) -> None:
    make, exception, text = PAIRS[crate, kind]
    with pytest.raises(exception, match=text) as caught:
        make(tmp_path)
    assert caught.type is exception


def test_every_kind_has_a_row(checkout: Path) -> None:
    kinds = {
        (path.parts[-3], kind)
        for path in checkout.glob("native/*/src/error.rs")
        for kind in variants(path.read_text(), r"\w+Error")
    }
    faults = variants((checkout / "native/layers/src/error.rs").read_text(), "Fault")
    assert len(kinds) > 25 and len(faults) > 15
    assert {(crate, kind.partition(".")[0]) for crate, kind in PAIRS} == kinds
    assert sorted(kind.partition(".")[2] for _, kind in PAIRS if "." in kind) == sorted(faults)


def test_no_other_exception_depends_on_a_fault(checkout: Path) -> None:
    """What the table of faults rests on: the map looks into those of entries of tars alone."""
    lines = (checkout / "native/python/src/errors.rs").read_text().splitlines()
    assert [line.strip() for line in lines if "fault:" in line] == [
        "| LayersError::Entry { fault: Fault::Kind { .. } | Fault::Sparse { .. }, .. } => {"
    ]


def variants(text: str, enum: str) -> list[str]:
    body = re.search(rf"pub enum {enum} \{{\n(.*?)\n\}}", text, re.DOTALL)
    assert body is not None
    return re.findall(r"^    (\w+)(?: \{|,)", body[1], re.MULTILINE)


def test_the_exceptions_are_what_callers_catch() -> None:
    assert issubclass(DataError, ValueError) and issubclass(ShapeError, ValueError)
    assert not issubclass(UnsupportedError, ValueError)
