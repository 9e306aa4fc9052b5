"""Each kind of error of each crate becomes one exception: a row a kind, and no kind without a row."""

from __future__ import annotations

import io
import math
import re
import struct
import tarfile
from collections.abc import Callable
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
# What no small input reaches, by the limit that keeps it away.
UNREACHED = {("layers", "Limit"): "terabytes of tar, or half a gigabyte of memory"}


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


def tar(size_bytes: int = 0) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        member = tarfile.TarInfo("entry")
        member.size = size_bytes
        archive.addfile(member, io.BytesIO(bytes(size_bytes)))
    return data.getvalue()


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
    ("layers", "Tar"): (layer(b"x" * 1024), DataError, "tar at byte 0"),
    ("layers", "Entry"): (layer(tar(size_bytes=600)[:1024]), DataError, 'entry "entry" at byte 512'),
}


@pytest.mark.parametrize(("crate", "kind"), sorted(PAIRS))
def test_a_kind_of_error_becomes_its_exception(tmp_path: Path, crate: str, kind: str) -> None:
    make, exception, text = PAIRS[crate, kind]
    with pytest.raises(exception, match=text) as caught:
        make(tmp_path)
    assert caught.type is exception


def test_every_kind_has_a_row(checkout: Path) -> None:
    kinds = set()
    for path in checkout.glob("native/*/src/error.rs"):
        body = re.search(r"pub enum \w+Error \{\n(.*?)\n\}", path.read_text(), re.DOTALL)
        assert body is not None, path
        kinds |= {(path.parts[-3], kind) for kind in re.findall(r"^    (\w+) \{", body[1], re.MULTILINE)}
    assert len(kinds) > 25
    assert kinds == PAIRS.keys() | UNREACHED.keys()


def test_the_exceptions_are_what_callers_catch() -> None:
    assert issubclass(DataError, ValueError) and issubclass(ShapeError, ValueError)
    assert not issubclass(UnsupportedError, ValueError)
