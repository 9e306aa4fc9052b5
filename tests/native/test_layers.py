"""Owners from layers: the core against its vectors and its twin, whatever the layers and however they are stored."""

from __future__ import annotations

import gzip
import json
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platoon import _native
from tests.images.layer_files import layer_tar
from tests.twins.layer_owners import HEADER, BadLayerError, Member, owner_manifest, read_members

pytestmark = pytest.mark.unit

NAMES = st.sampled_from([b"a", b"b", b"b", b"ab", b".c", b"\xff"])
STARTS = st.sampled_from([b"", b"", b"", b"./", b"/"])
ENDS = st.sampled_from([b"", b"", b"", b"/."])
PATHS = st.builds(lambda start, parts, end: start + b"/".join(parts) + end, STARTS, st.lists(NAMES, min_size=1, max_size=3), ENDS)
LONG = st.builds(lambda path: path + b"/" + b"x" * 120, PATHS)
HIDDEN = st.sampled_from([b".wh.a", b".wh.b", b".wh..c", b".wh..wh..opq", b".wh..wh.plnk"])
WHITEOUTS = st.one_of(HIDDEN, st.builds(lambda path, name: path + b"/" + name, PATHS, HIDDEN))
WRONG = st.sampled_from([b"a/../b", b"..", b"a/.wh.", b".wh..."])
TARGETS = st.one_of(PATHS, st.sampled_from([b"..", b"../b", b"/", b"."]))
IDS = st.sampled_from([0, 1, 1000, 4_000_000])
OWNED = st.builds(Member, st.one_of(PATHS, PATHS, PATHS, LONG), st.sampled_from("00554"), IDS, IDS)
MEMBER = st.one_of(
    OWNED,
    OWNED,
    st.builds(Member, WHITEOUTS, st.just("0"), IDS, IDS),
    st.builds(Member, PATHS, st.just("2"), IDS, IDS, TARGETS),
    st.builds(Member, PATHS, st.just("1"), IDS, IDS, st.one_of(PATHS, WHITEOUTS)),
)
MEMBERS = st.lists(MEMBER, max_size=9)
BAD = st.builds(lambda members, name: [*members, Member(name, "0", 1, 1)], MEMBERS, WRONG)
FORMATS = st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])


def native(stored: Sequence[bytes]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, str(index)) for index in range(len(stored))]
        for path, data in zip(paths, stored, strict=True):
            path.write_bytes(data)
        return _native.layer_owners([(path, None, None, None, None) for path in paths])[0]


def test_published_vectors(checkout: Path) -> None:
    vectors = json.loads((checkout / "native/layers/vectors.json").read_text())
    assert vectors["rule"] == _native.OWNERS_RULE
    for vector in vectors["vectors"]:
        layers = [
            [
                Member(
                    entry["name"].encode("latin-1"),
                    entry["type"],
                    entry["uid"],
                    entry["gid"],
                    entry.get("link", "").encode("latin-1"),
                )
                for entry in layer
            ]
            for layer in vector["layers"]
        ]
        expected = HEADER + vector["manifest"].encode("latin-1")
        assert owner_manifest(layers) == expected, vector["name"]
        assert native([layer_tar(layer) for layer in layers]) == expected, vector["name"]


@settings(deadline=None, max_examples=120)
@given(st.lists(st.one_of(*[MEMBERS] * 15, BAD), min_size=1, max_size=3), FORMATS)
def test_core_and_twin_agree(layers: list[list[Member]], tar_format: int) -> None:
    tars = [layer_tar(layer, tar_format) for layer in layers]
    try:
        expected = owner_manifest([read_members(tar) for tar in tars])
    except BadLayerError:
        with pytest.raises(_native.DataError):
            native(tars)
        return
    assert native(tars) == expected
    assert native([gzip.compress(tar, 1) for tar in tars]) == expected


def is_whiteout(member: Member) -> bool:
    return member.name.rpartition(b"/")[2].startswith(b".wh.")


# Files here are named as no directory is, so that a whiteout is always in a directory.
TREES = st.lists(
    st.one_of(
        st.builds(Member, PATHS, st.just("5"), IDS, IDS),
        st.builds(Member, st.builds(lambda path: path + b"/file", PATHS), st.just("0"), IDS, IDS),
        st.builds(Member, st.one_of(WHITEOUTS, st.builds(lambda path: path + b"/.wh.file", PATHS)), st.just("0"), IDS, IDS),
    ),
    max_size=10,
)


@settings(deadline=None, max_examples=50)
@given(TREES, TREES)
def test_u32_the_order_of_whiteouts_does_not_matter(lower: list[Member], upper: list[Member]) -> None:
    first, last = (sorted(upper, key=is_whiteout, reverse=reverse) for reverse in (False, True))
    assert native([layer_tar(lower), layer_tar(first)]) == native([layer_tar(lower), layer_tar(last)])


def test_each_kind_of_error_becomes_its_exception(tmp_path: Path) -> None:
    def read(path: Path, *known: str | int | None) -> bytes:
        media_type, size_bytes, digest, diff_id = (*known, None, None, None, None)[:4]
        return _native.layer_owners([(path, media_type, size_bytes, digest, diff_id)])[0]  # type: ignore[list-item]

    path = tmp_path / "layer"
    tar = layer_tar([Member(b"a", "0", 1, 1)])
    path.write_bytes(tar)
    other = "sha256:" + "0" * 64
    for known, text in (
        (("application/vnd.oci.image.layer.v1.tar+gzip",), "says gzip, the first bytes say plain tar"),
        ((None, 1), "bytes, where the manifest says 1"),
        ((None, None, other), "the digest is sha256:"),
        ((None, None, None, other), "the diff_id is sha256:"),
    ):
        with pytest.raises(_native.DataError, match=text):
            read(path, *known)
    with pytest.raises(_native.UnsupportedError, match='the digest "md5:0" is not read here'):
        read(path, None, None, "md5:0")
    for data, error, text in (
        (gzip.compress(tar)[:-1], _native.DataError, "gzip at byte [0-9]+: ends in the middle of a member"),
        (tar[:1024], _native.DataError, "tar at byte 1024: ends without the blocks of zeros"),
        (layer_tar([Member(b"..", "0", 1, 1)]), _native.DataError, 'entry ".." at byte 0: the name climbs'),
        (layer_tar([Member(b"a", "M", 1, 1)]), _native.UnsupportedError, "type 'M' is not read here"),
        (b"hsqs", _native.UnsupportedError, "a squashfs image in the place of a layer is not read here"),
    ):
        path.write_bytes(data)
        with pytest.raises(error, match=text):
            read(path)
    with pytest.raises(_native.DataError, match="not a regular file"):
        read(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        read(tmp_path / "absent")
    assert caught.value.filename == str(tmp_path / "absent")
