"""Owners of squashfs images beside the tools that made them, and beside the tools that list them."""

from __future__ import annotations

import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from platoon import _native
from tests.native.squashfs_trees import (
    COMPRESSORS,
    WRITERS,
    Node,
    Owners,
    archive,
    as_owners,
    owners_of,
    random_tree,
    write_image,
)

pytestmark = pytest.mark.tools

LISTED = re.compile(rb"^([dlbcps-])[rwxsStT-]{9} +(\d+)/(\d+) +(?:\d+, *\d+|\d+) \d{4}-\d\d-\d\d \d\d:\d\d ?(.*)$")


def unsquashed(path: Path) -> Owners:
    """The listing of unsquashfs, for names without newlines, and without arrows in names of links."""
    text = subprocess.run(["unsquashfs", "-lln", "-d", "", str(path)], check=True, stdout=subprocess.PIPE).stdout
    owners: Owners = {}
    for line in text.splitlines():
        found = LISTED.match(line)
        assert found, line
        name = found[4].partition(b" -> ")[0] if found[1] == b"l" else found[4]
        owners[name or b"/"] = (int(found[2]), int(found[3]))
    return {name: owner for name, owner in owners.items() if owner != (0, 0)}


def described(path: Path) -> Owners:
    """The listing of rdsquashfs, for names without newlines; it leaves out the root."""
    text = subprocess.run(["rdsquashfs", "--describe", str(path)], check=True, stdout=subprocess.PIPE).stdout
    owners: Owners = {}
    for line in text.removesuffix(b"\n").split(b"\n"):
        rest = line.partition(b" ")[2]
        if rest.startswith(b'"'):
            found = re.match(rb'"((?:[^"\\]|\\.)*)" 0\d+ (\d+) (\d+)', rest)
        else:
            found = re.match(rb"([^ ]*) 0\d+ (\d+) (\d+)", rest)
        assert found, line
        name = re.sub(rb"\\(.)", rb"\1", found[1]) if rest.startswith(b'"') else found[1]
        owners[b"/" + name] = (int(found[2]), int(found[3]))
    return {name: owner for name, owner in owners.items() if owner != (0, 0)}


def read(path: Path) -> Owners:
    return as_owners(_native.squash_entries(path))


@pytest.mark.parametrize("compressor", COMPRESSORS)
@pytest.mark.parametrize("writer", WRITERS)
def test_u53_the_same_tree_in_each_compressor(tmp_path: Path, writer: str, compressor: str) -> None:
    nodes = random_tree(seed=53, entries=3000)
    path = write_image(archive(nodes), tmp_path / "image", writer, compressor)
    expected = owners_of(nodes)
    assert len(expected) > 1000
    assert read(path) == expected
    assert described(path) == expected
    # unsquashfs 4.5.1 takes the id table that tar2sqfs 1.2 packs with lz4 for corrupted.
    if (writer, compressor) != ("tar2sqfs", "lz4"):
        assert unsquashed(path) == expected


@pytest.mark.parametrize("seed", range(12))
def test_random_trees(tmp_path: Path, seed: int) -> None:
    nodes = random_tree(seed, entries=40 * 2 ** (seed % 6))
    compressor, writer = COMPRESSORS[seed % 3], WRITERS[seed % 2]
    path = write_image(archive(nodes), tmp_path / "image", writer, compressor)
    assert read(path) == owners_of(nodes) == described(path) == unsquashed(path)


@pytest.mark.parametrize("options", [("-noI",), ("-noId",), ("-no-fragments",), ("-b", "1M"), ("-no-exports",), ("-exports",)])
def test_what_writers_may_leave_unpacked_or_add(tmp_path: Path, options: tuple[str, ...]) -> None:
    nodes = random_tree(seed=7, entries=400)
    assert read(write_image(archive(nodes), tmp_path / "image", "mksquashfs", "zstd", *options)) == owners_of(nodes)


@pytest.mark.parametrize("writer", WRITERS)
def test_u55_more_owners_than_one_id_block_holds(tmp_path: Path, writer: str) -> None:
    """5,000 files with owners and groups of their own (10,005 ids), a hard link, a FIFO, extended attributes."""
    nodes = [Node(b"all", tarfile.DIRTYPE, 1, 2)]
    nodes += [Node(b"all/f%04d" % number, uid=100_000 + number, gid=200_000 + number, data=b"x") for number in range(5000)]
    nodes += [
        Node(b"all/link", tarfile.LNKTYPE, 3, 3, link=b"all/f0017"),
        Node(b"fifo", tarfile.FIFOTYPE, 4, 5),
        Node(b"labelled", tarfile.DIRTYPE, 4, 0, xattrs={"user.note": "a directory"}),
        Node(b"labelled/file", uid=0, gid=5, data=b"x" * 5000, xattrs={"user.note": "a file"}),
    ]
    expected = owners_of(nodes)
    assert expected[b"/all/link"] == expected[b"/all/f0017"] == (100_017, 200_017)
    path = write_image(archive(nodes), tmp_path / "image", writer, "gzip")
    assert read(path) == expected == described(path)


@pytest.mark.parametrize("writer", WRITERS)
def test_u46_names_that_no_listing_can_show(tmp_path: Path, writer: str) -> None:
    names = [b"a\nb", b" lead", b"trail ", b"x\rz", b"tab\t", b'"quoted"', b"back\\slash", b"\xff\xfe", "é".encode(), b"-"]
    nodes = [Node(name, uid=index + 1) for index, name in enumerate(names)]
    nodes += [Node(b"l -> m", tarfile.SYMTYPE, 40, 41, link=b"x -> y"), Node(b"f -> g", uid=50)]
    assert read(write_image(archive(nodes), tmp_path / "image", writer, "xz")) == owners_of(nodes)


@pytest.mark.parametrize("writer", WRITERS)
def test_directories_that_span_blocks_and_deep_ones(tmp_path: Path, writer: str) -> None:
    """A directory of 6,000 entries (extended, with an index) and one of 60 levels."""
    nodes = [Node(b"wide", tarfile.DIRTYPE, 7, 7)]
    nodes += [Node(b"wide/%05d-%s" % (number, b"n" * (number % 200)), uid=number % 3, gid=1) for number in range(6000)]
    nodes += [Node(b"/".join([b"deep"] * level), tarfile.DIRTYPE, level, 9) for level in range(1, 61)]
    path = write_image(archive(nodes), tmp_path / "image", writer, "lz4")
    assert read(path) == owners_of(nodes)


@pytest.mark.parametrize("compressor", ["lzo", "lzma"])
def test_u53_compressors_that_are_not_read_are_named(tmp_path: Path, compressor: str) -> None:
    path = write_image(archive([Node(b"f", uid=1)]), tmp_path / "image", "mksquashfs", compressor)
    with pytest.raises(_native.UnsupportedError, match=f"the compressor {compressor} is not read here"):
        _native.squash_entries(path)


def test_an_image_at_an_offset(tmp_path: Path) -> None:
    nodes = random_tree(seed=11, entries=200)
    path = write_image(archive(nodes), tmp_path / "image", "mksquashfs", "zstd", "-offset", "40961")
    assert as_owners(_native.squash_entries(path, 40961)) == owners_of(nodes)
    with pytest.raises(_native.DataError, match="a squashfs is expected at byte 0"):
        _native.squash_entries(path)
