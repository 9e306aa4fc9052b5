"""The Python face of `native/squash`: columns and dicts out, errors mapped, images of every format."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from platoon import _native
from tests.native.sif_files import (
    DEFINITION,
    ENCRYPTED,
    EXT3,
    OVERLAY,
    ROOT_INDEX,
    SQUASHFS_LAYER,
    Object,
    digest_of,
    partition,
    sif,
)
from tests.native.sif_files import oci_sif as made_oci_sif
from tests.native.squashfs_trees import as_owners

pytestmark = pytest.mark.unit

CONFIG = {"architecture": "amd64", "os": "linux", "config": {"User": "app"}}
FUNCTIONS = (_native.squash_entries, _native.image_owners, _native.sif_objects, _native.oci_sif)


@pytest.fixture(params=["gzip", "lz4", "plain", "xz", "zstd"])
def image(request: pytest.FixtureRequest, checkout: Path) -> Path:
    return checkout / f"native/fuzz/corpus/squash_owners/{request.param}.sqfs"


@pytest.fixture
def squashfs(checkout: Path) -> bytes:
    return (checkout / "native/fuzz/corpus/squash_owners/zstd.sqfs").read_bytes()


def test_u53_the_owners_of_one_tree_in_columns(image: Path) -> None:
    columns = _native.squash_entries(image)
    assert [columns[name].dtype for name in ("ends", "uids", "gids")] == [np.uint64, np.uint32, np.uint32]
    owners = as_owners(columns)
    assert len(owners) == 20
    assert owners[b"/home/nb/a\nb"] == (4_294_967_294, 4_294_967_294)
    assert owners[b"/home/nb/l -> m"] == (33, 33)
    assert owners[b"/run/null"] == (0, 6)
    assert owners[b"/home/nb/file03"] == owners[b"/home/nb/file03.link"] == (1000, 100)


def test_the_root_of_each_format_of_image(tmp_path: Path, squashfs: bytes) -> None:
    (tmp_path / "sqfs").write_bytes(squashfs)
    (tmp_path / "sif").write_bytes(sif([Object(DEFINITION, b"Bootstrap: docker\n"), partition(squashfs)]))
    (tmp_path / "oci.sif").write_bytes(made_oci_sif([(SQUASHFS_LAYER, squashfs)], CONFIG))
    (tmp_path / "behind").write_bytes(b"x" * 777 + squashfs)
    expected = as_owners(_native.squash_entries(tmp_path / "behind", 777))
    lines = [b"%d %d %b" % (*owner, path) for path, owner in sorted(expected.items()) if b"\n" not in path]
    for name in ("sqfs", "sif", "oci.sif"):
        data, count, unrepresentable = _native.image_owners(tmp_path / name)
        assert data.splitlines()[1:] == lines
        assert (count, unrepresentable) == (len(lines), len(expected) - len(lines))


def test_an_image_that_is_not_the_one_that_was_named(tmp_path: Path, squashfs: bytes) -> None:
    path = tmp_path / "image"
    path.write_bytes(squashfs)
    named = (len(squashfs), digest_of(squashfs))
    assert _native.image_owners(path, *named) == _native.image_owners(path)
    with pytest.raises(_native.DataError, match=f"image: the image at byte 0: {named[0]} bytes, where a file of 5 is expected"):
        _native.image_owners(path, 5)
    path.write_bytes(squashfs[:-1] + b"x")
    with pytest.raises(_native.DataError, match=f"image: the image at byte 0: sha256:.*, where {named[1]} is expected"):
        _native.image_owners(path, *named)


def test_the_objects_of_a_sif(tmp_path: Path) -> None:
    path = tmp_path / "image.sif"
    path.write_bytes(sif([Object(DEFINITION, b"text", b"na\xefme"), partition(b"fs", EXT3, OVERLAY)]))
    definition, overlay = _native.sif_objects(path)
    start = 128 + 2 * 585
    assert definition == {"id": 1, "group": 1, "kind": "Def.FILE", "name": "na\udcefme", "offset": start, "size_bytes": 4}
    assert (overlay["file_system"], overlay["role"], overlay["offset"]) == ("ext3", "overlay", start + 4)


def test_the_image_of_an_oci_sif(tmp_path: Path) -> None:
    path = tmp_path / "image.sif"
    path.write_bytes(made_oci_sif([(SQUASHFS_LAYER, b"one"), ("other", b"two")], CONFIG))
    image = _native.oci_sif(path)
    assert image["config_digest"] == digest_of(image["config"]) and b'"app"' in image["config"]
    assert image["manifest_digest"] == digest_of(image["manifest"])
    assert [(layer["media_type"], layer["digest"]) for layer in image["layers"]] == [
        (SQUASHFS_LAYER, digest_of(b"one")),
        ("other", digest_of(b"two")),
    ]
    content = path.read_bytes()
    assert [content[layer["offset"] :][: layer["size_bytes"]] for layer in image["layers"]] == [b"one", b"two"]
    assert [item["kind"] for item in _native.sif_objects(path)] == ["OCI.Blob"] * 4 + ["OCI.RootIndex"]


def refused_images(squashfs: bytes) -> dict[str, tuple[Callable[[Path], Any], bytes, type[Exception], str]]:
    """A case an error of the crate: what is called, the file, the exception, what its text says."""
    entries, root = _native.squash_entries, _native.image_owners
    huge_count = squashfs[:26] + struct.pack("<H", 65535) + squashfs[28:120]
    return {
        "Magic": (entries, b"PK\3\4" + squashfs, _native.DataError, "a squashfs is expected at byte 0"),
        "Magic of any": (root, b"PK\3\4" + bytes(100), _native.DataError, "a squashfs or a SIF is expected"),
        "OutOfFile": (entries, squashfs[:-1], _native.DataError, "bytes used: .* where the image ends"),
        "u47": (entries, huge_count, _native.DataError, "do not fit before byte 120"),
        "Damaged": (entries, squashfs[:4] + bytes(4) + squashfs[8:], _native.DataError, "superblock at byte 4: the inode count"),
        "Unsupported": (entries, squashfs[:20] + b"\3\0" + squashfs[22:], _native.UnsupportedError, "the compressor lzo"),
        "Limit": (root, sif([Object(ROOT_INDEX, bytes(2**22 + 1))]), _native.UnsupportedError, "more than 4194304 bytes"),
        "ext3": (root, sif([partition(b"", EXT3)]), _native.UnsupportedError, "is ext3"),
        "encrypted": (root, sif([partition(squashfs, ENCRYPTED)]), _native.UnsupportedError, "is encrypted squashfs"),
        "layers": (
            root,
            made_oci_sif([(SQUASHFS_LAYER, squashfs)] * 2, CONFIG),
            _native.UnsupportedError,
            "an OCI-SIF of 2 layers",
        ),
    }


@pytest.mark.parametrize("case", list(refused_images(b"")))
def test_each_kind_of_error_becomes_its_exception(tmp_path: Path, squashfs: bytes, case: str) -> None:
    function, content, error, text = refused_images(squashfs)[case]
    path = tmp_path / "image"
    path.write_bytes(content)
    with pytest.raises(error, match=text) as caught:
        function(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_no_file_is_refused_and_does_not_block(tmp_path: Path, function: Callable[[Path], Any]) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo"):
        with pytest.raises(_native.DataError, match="not a regular file"):
            function(path)
    with pytest.raises(FileNotFoundError) as caught:
        function(tmp_path / "absent")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(tmp_path / "absent"))


def test_an_offset_past_the_end(tmp_path: Path, squashfs: bytes) -> None:
    path = tmp_path / "image"
    path.write_bytes(squashfs)
    for offset in (len(squashfs), len(squashfs) + 1, 2**64 - 1):
        with pytest.raises(_native.DataError, match="do not fit before byte"):
            _native.squash_entries(path, offset)
    with pytest.raises(OverflowError):
        _native.squash_entries(path, -1)
