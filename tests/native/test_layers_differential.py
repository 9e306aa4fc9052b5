"""Owners from layers beside the tools that write, unpack and convert them, on trees whose owners the file system knows."""

from __future__ import annotations

import os
import random
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from platoon import _native
from platoon.errors import ConfigError
from platoon.images.owners import owners_of
from tests.images.layer_files import CONFIG, HERE, MANIFEST, Layout, digest_of, layer_tar
from tests.native.sif_files import SQUASHFS_LAYER, oci_sif, partition, sif
from tests.twins.layer_owners import HEADER, Member

pytestmark = [
    pytest.mark.tools,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others"),
]

LARGEST = 4_294_967_294
OCTAL = 2_097_151
# bsdtar ends an octal number where it must not.
SIX_DIGITS = 262_143
NAMES = (b"a", b"b", b"ab", b".c", b"d e", b"\xff\xfe", b"-> f", b"g\\", b"\xc3\xa9")


def run(*command: str | Path) -> None:
    ended = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert ended.returncode == 0, ended.stdout.decode(errors="replace")


def on_disk(root: Path) -> bytes:
    """The manifest of an unpacked tree."""
    lines: dict[bytes, bytes] = {}
    pending = [root]
    while pending:
        place = pending.pop()
        path = os.fsencode(place).removeprefix(os.fsencode(root))
        status = place.lstat()
        if (status.st_uid, status.st_gid) != (0, 0):
            lines[path or b"/"] = b"%d %d %s\n" % (status.st_uid, status.st_gid, path or b"/")
        if stat.S_ISDIR(status.st_mode):
            pending += place.iterdir()
    return HEADER + b"".join(lines[path] for path in sorted(lines))


def make_tree(root: Path, seed: int, largest: int, *, with_fifos: bool = True) -> None:
    """Directories, files with holes, links of both kinds and FIFOs, most of them not root's."""
    choose = random.Random(seed)
    root.mkdir()
    folders, files = [root], list[Path]()
    for _ in range(120):
        path = choose.choice(folders) / os.fsdecode(choose.choice(NAMES))
        if os.path.lexists(path):
            continue
        kind = choose.choice(["folder", "file", "file", "holes", "symlink", "hard", "fifo"])
        if kind == "folder" and len(path.parts) < len(root.parts) + 6:
            path.mkdir()
            folders.append(path)
        elif kind == "symlink":
            path.symlink_to(os.fsdecode(choose.choice(NAMES)))
        elif kind == "hard" and files:
            path.hardlink_to(choose.choice(files))
            continue
        elif kind == "fifo" and with_fifos:
            os.mkfifo(path)
        else:
            with path.open("wb") as file:
                for _ in range(choose.choice([1, 3, 30]) if kind == "holes" else 0):
                    file.write(b"data")
                    file.seek(40_000, os.SEEK_CUR)
                file.truncate()
            files.append(path)
        os.chown(path, choose.choice([0, 33, largest]), choose.choice([0, 100, largest]), follow_symlinks=False)
    os.chown(root, 7, 8)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("options", "largest"),
    [
        (("--format=v7",), OCTAL),
        (("--format=ustar",), OCTAL),
        (("--format=oldgnu", "--sparse"), OCTAL),
        (("--format=gnu",), LARGEST),
        (("--format=gnu", "--sparse", "--gzip"), LARGEST),
        (("--format=gnu", "--incremental"), LARGEST),
        (("--format=pax",), LARGEST),
        (("--format=pax", "--sparse", "--sparse-version=0.0"), LARGEST),
        (("--format=pax", "--sparse", "--sparse-version=0.1", "--zstd"), LARGEST),
        (("--format=pax", "--sparse", "--sparse-version=1.0"), LARGEST),
        (("--format=pax", "--hard-dereference", "--xattrs"), LARGEST),
    ],
    ids=lambda value: "".join(value) if isinstance(value, tuple) else "",
)
def test_gnu_tar(tmp_path: Path, seed: int, options: tuple[str, ...], largest: int) -> None:
    make_tree(tmp_path / "tree", seed, largest, with_fifos="--format=v7" not in options)
    run("tar", "--numeric-owner", *options, "-C", tmp_path / "tree", "-cf", tmp_path / "layer", ".")
    assert owners_of([tmp_path / "layer"]).data == on_disk(tmp_path / "tree")


@pytest.mark.parametrize("options", [("--owner=1000:1000", "--group=:100"), ("--owner=:3000000", "--group=:4294967294")])
def test_gnu_tar_with_owners_of_its_own(tmp_path: Path, options: tuple[str, ...]) -> None:
    make_tree(tmp_path / "tree", 3, OCTAL)
    run("tar", "--format=pax", *options, "-C", tmp_path / "tree", "-cf", tmp_path / "layer", ".")
    lines = owners_of([tmp_path / "layer"]).data.splitlines()[1:]
    uid, gid = (option.rpartition(":")[2].encode() for option in options)
    assert len(lines) > 10 and {tuple(line.split(b" ", 2)[:2]) for line in lines} == {(uid, gid)}


@pytest.mark.parametrize(
    ("tar_format", "largest"), [("v7", SIX_DIGITS), ("ustar", SIX_DIGITS), ("gnutar", LARGEST), ("pax", LARGEST)]
)
def test_bsdtar(tmp_path: Path, tar_format: str, largest: int) -> None:
    make_tree(tmp_path / "tree", 4, largest, with_fifos=tar_format != "v7")
    run("bsdtar", f"--format={tar_format}", "-C", tmp_path / "tree", "-cf", tmp_path / "layer", ".")
    assert owners_of([tmp_path / "layer"]).data == on_disk(tmp_path / "tree")


@pytest.mark.parametrize(
    ("tar_format", "largest"), [(tarfile.USTAR_FORMAT, OCTAL), (tarfile.GNU_FORMAT, LARGEST), (tarfile.PAX_FORMAT, LARGEST)]
)
def test_tarfile(tmp_path: Path, tar_format: int, largest: int) -> None:
    make_tree(tmp_path / "tree", 5, largest)
    with tarfile.open(tmp_path / "layer", "w", format=tar_format, errors="surrogateescape") as archive:
        archive.add(tmp_path / "tree", ".")
    assert owners_of([tmp_path / "layer"]).data == on_disk(tmp_path / "tree")


@pytest.mark.parametrize("tool", ["tar", "bsdtar"])
def test_long_names(tmp_path: Path, tool: str) -> None:
    deep = tmp_path / "tree" / Path(*["directory " * 20] * 5)
    deep.mkdir(parents=True)
    (deep / ("f" * 250)).write_text("")
    (deep / "link").symlink_to("t" * 1000)
    os.link(deep / ("f" * 250), deep / "hard")
    for path in (deep, deep / ("f" * 250), deep / "link"):
        os.chown(path, 3, 4, follow_symlinks=False)
    for tar_format in ("gnu" if tool == "tar" else "gnutar", "pax"):
        run(tool, f"--format={tar_format}", "-C", tmp_path / "tree", "-cf", tmp_path / "layer", ".")
        assert owners_of([tmp_path / "layer"]).data == on_disk(tmp_path / "tree")


def random_layers(choose: random.Random) -> list[list[Member]]:
    """Layers that runtimes unpack, most of them: a hard link's target is a file of its layer, whiteouts come first."""

    def path() -> bytes:
        return b"/".join(choose.choice([b"a", b"b", b".c"]) for _ in range(choose.randint(1, 3)))

    def layer() -> list[Member]:
        whiteouts, members = list[Member](), list[Member]()
        for _ in range(choose.randint(2, 9)):
            uid, gid = choose.choice([(0, 0), (1, 2), (1000, 100), (3_000_000, 5)])
            file = path() + b"/" + choose.choice([b"f", b"g"])
            match choose.randint(0, 5):
                case 0 | 1:
                    members.append(Member(file, "0", uid, gid))
                case 2:
                    members.append(Member(path(), "5", uid, gid))
                case 3:
                    members.append(Member(path(), "2", uid, gid, choose.choice([path(), b"/" + path(), b"../" + path(), b".."])))
                case 4 if files := [member.name for member in members if member.kind == "0"]:
                    members.append(Member(file, "1", 0, 0, choose.choice(files)))
                case _:
                    hidden = choose.choice([b".wh.a", b".wh.b", b".wh..c", b".wh.f", b".wh..wh..opq"])
                    whiteouts.append(Member(path() + b"/" + hidden, "0", 0, 0))
        return whiteouts + members

    return [layer() for _ in range(choose.randint(1, 3))]


def test_layers_as_umoci_unpacks_them(tmp_path: Path) -> None:
    choose = random.Random(6)
    compared = 0
    for index in range(60):
        layout = Layout(tmp_path / f"layout{index}")
        layers = random_layers(choose)
        layout.add(layout.image([layer_tar(layer) for layer in layers], annotations={"org.opencontainers.image.ref.name": "it"}))
        rootfs = tmp_path / f"rootfs{index}"
        command = ["umoci", "raw", "unpack", "--image", f"{layout.directory}:it", str(rootfs)]
        if subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).returncode == 0:
            compared += 1
            assert owners_of([layout.directory]).data == on_disk(rootfs), layers
    assert compared >= 20


def test_a_layer_and_the_squashfs_made_of_it(tmp_path: Path) -> None:
    make_tree(tmp_path / "tree", 7, LARGEST)
    run("tar", "--format=pax", "--numeric-owner", "-C", tmp_path / "tree", "-cf", tmp_path / "layer", ".")
    with (tmp_path / "layer").open("rb") as tar:
        command = ["tar2sqfs", "--quiet", str(tmp_path / "image")]
        subprocess.run(command, stdin=tar, check=True, stdout=subprocess.PIPE)
    expected = owners_of([tmp_path / "layer"])
    assert expected.data == on_disk(tmp_path / "tree")
    assert owners_of([tmp_path / "image"]) == expected
    image = (tmp_path / "image").read_bytes()
    (tmp_path / "sif").write_bytes(sif([partition(image)]))
    assert owners_of([tmp_path / "sif"]) == expected
    (tmp_path / "oci.sif").write_bytes(oci_sif([(SQUASHFS_LAYER, image)], {}))
    assert owners_of([tmp_path / "oci.sif"]) == expected
    layout = Layout(tmp_path / "layout")
    config = layout.document({"os": "linux", "architecture": HERE, "rootfs": {"diff_ids": [digest_of(image)]}}, CONFIG)
    layer = layout.blob(image, SQUASHFS_LAYER)
    layout.add(layout.document({"config": config, "layers": [layer]}, MANIFEST))
    assert owners_of([layout.directory]) == expected
    layout.path(layer).write_bytes(image[:-1] + b"x")
    with pytest.raises(_native.DataError, match=r"where sha256:.* is expected"):
        owners_of([layout.directory])
    with pytest.raises(ConfigError, match="is an image by itself"):
        owners_of([tmp_path / "layer", tmp_path / "sif"])


@pytest.mark.parametrize("kind", ["docker-archive", "oci-archive", "oci"])
def test_images_as_skopeo_saves_them(tmp_path: Path, kind: str) -> None:
    """Layers that are the same are a link in one archive, and one blob in the other."""
    layout = Layout(tmp_path / "layout")
    lower = layer_tar([Member(b"srv/", "5", 33, 33), Member(b"srv/a", "0", 1, 2)])
    layout.add(layout.image([lower, layer_tar([Member(b"srv/.wh.a", "0", 0, 0)]), lower]))
    place = tmp_path / "saved"
    run("skopeo", "--insecure-policy", "--tmpdir", tmp_path, "copy", "-q", f"oci:{layout.directory}", f"{kind}:{place}:one:latest")
    found = owners_of([place], name="docker.io/library/one:latest" if kind == "docker-archive" else None)
    assert found == owners_of([layout.directory])
    assert found.data == HEADER + b"33 33 /srv\n1 2 /srv/a\n"


@pytest.mark.parametrize("damage", range(40))
def test_damaged_archives_are_errors_or_manifests(tmp_path: Path, damage: int) -> None:
    """No archive that a tool wrote, cut or changed anywhere, brings the reader down."""
    choose = random.Random(damage)
    make_tree(tmp_path / "tree", 8, LARGEST)
    run("tar", choose.choice(["--format=gnu", "--format=pax"]), "--sparse", "-C", tmp_path / "tree", "-cf", tmp_path / "layer", ".")
    data = bytearray((tmp_path / "layer").read_bytes())
    for _ in range(choose.randint(1, 4)):
        data[choose.randrange(len(data))] = choose.randrange(256)
    (tmp_path / "layer").write_bytes(data[: choose.choice([len(data), choose.randrange(len(data))])])
    try:
        assert owners_of([tmp_path / "layer"]).data.startswith(HEADER)
    except (_native.DataError, _native.UnsupportedError, ConfigError) as error:
        assert str(tmp_path / "layer") in str(error)
