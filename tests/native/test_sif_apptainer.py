"""SIF files that Apptainer wrote, beside what its own tools and the layers they came from say."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from platoon import _native
from platoon.images.owners import owners_of
from tests.images.layer_files import Layout, layer_tar
from tests.native.sif_files import SQUASHFS_LAYER, digest_of
from tests.twins.layer_owners import HEADER, Member

pytestmark = pytest.mark.hpc

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
PARTITION = ("--datatype", "4", "--parttype", "2", "--partfs", "1", "--partarch", "2", "--filename", "squash.img")
ROOT_INDEX, BLOB = ("--datatype", "10"), ("--datatype", "11")
LISTED = re.compile(rb"^[dlbcps-]\S{9} +(\d+)/(\d+) +(?:\d+, *\d+|\d+) \d{4}-\d\d-\d\d \d\d:\d\d (/.*)$")
MOUNTED_OVER = re.compile(rb"/(dev|proc|sys|tmp|var/tmp)(/|$)")


def apptainer(*arguments: str | Path) -> None:
    ended = subprocess.run(
        ["apptainer", "--quiet", *arguments],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert ended.returncode == 0, ended.stdout.decode(errors="replace")


def listed(sif: Path) -> bytes:
    """The manifest that `unsquashfs -lln` of the system partition makes, for plain names and an image whose root is root's."""
    (system,) = (item for item in _native.sif_objects(sif) if item["kind"] == "FS")
    command = ["unsquashfs", "-lln", "-d", "", "-o", str(system["offset"]), str(sif)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    lines: dict[bytes, bytes] = {}
    for found in filter(None, map(LISTED.match, text.splitlines())):
        uid, gid, path = found.groups()
        path = path.partition(b" -> ")[0]
        if (uid, gid) != (b"0", b"0") and not MOUNTED_OVER.match(path):
            lines[path] = b"%s %s %s\n" % (uid, gid, path)
    return HEADER + b"".join(lines[path] for path in sorted(lines))


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("APPTAINER_CACHEDIR", "APPTAINER_TMPDIR", "APPTAINER_CONFIGDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))


def test_objects_that_apptainer_adds(tmp_path: Path, checkout: Path) -> None:
    squashfs = checkout / "native/fuzz/corpus/squash_owners/zstd.sqfs"
    definition = tmp_path / "definition"
    definition.write_text("Bootstrap: docker\n")
    path = tmp_path / "image.sif"
    apptainer("sif", "new", path)
    apptainer("sif", "add", *PARTITION, path, squashfs)
    apptainer("sif", "add", "--datatype", "1", "--groupid", "1", path, definition)
    system, text = _native.sif_objects(path)
    assert (system["kind"], system["file_system"], system["role"]) == ("FS", "squashfs", "primary system")
    assert (system["name"], system["size_bytes"]) == ("squash.img", squashfs.stat().st_size)
    assert (text["kind"], text["group"]) == ("Def.FILE", 1)
    assert path.read_bytes()[text["offset"] :][: text["size_bytes"]] == definition.read_bytes()
    assert owners_of([path]) == owners_of([squashfs])


def test_an_oci_sif_of_apptainers_objects(tmp_path: Path, checkout: Path) -> None:
    """Apptainer writes none by itself; its `sif add` knows the objects of one."""
    squashfs = checkout / "native/fuzz/corpus/squash_owners/zstd.sqfs"
    path = tmp_path / "oci.sif"
    apptainer("sif", "new", path)

    def add(kind: tuple[str, ...], data: bytes, media_type: str) -> dict[str, object]:
        (tmp_path / "data").write_bytes(data)
        apptainer("sif", "add", *kind, path, tmp_path / "data")
        return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}

    layer = add(BLOB, squashfs.read_bytes(), SQUASHFS_LAYER)
    config = add(BLOB, b"{}", "application/vnd.oci.image.config.v1+json")
    document = {"schemaVersion": 2, "config": config, "layers": [layer]}
    manifest = add(BLOB, json.dumps(document).encode(), "application/vnd.oci.image.manifest.v1+json")
    add(ROOT_INDEX, json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode(), "")
    assert [item["kind"] for item in _native.sif_objects(path)] == ["OCI.Blob"] * 3 + ["OCI.RootIndex"]
    assert owners_of([path]) == owners_of([squashfs])


@needs_root
def test_a_sif_built_of_a_directory(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for number, place in enumerate(("bin", "srv/deep/er", "home/nb", "var/tmp/x")):
        (root / place).mkdir(parents=True)
        for name in ("file", "a name with blanks", ".hidden"):
            (root / place / name).write_text(name)
            os.chown(root / place / name, 1000 + number, 205_001)
        os.link(root / place / "file", root / place / "hard")
        (root / place / "soft").symlink_to("file")
        os.chown(root / place / "soft", 0, 7, follow_symlinks=False)
        os.chown(root / place, 1000 + number, 0)
    apptainer("build", tmp_path / "image.sif", root)
    found = owners_of([tmp_path / "image.sif"])
    assert found.data == listed(tmp_path / "image.sif")
    assert b"1002 205001 /home/nb/hard\n" in found.data and b"/var/tmp" not in found.data
    assert found.count == 18


@needs_root
def test_u56_a_sif_built_of_layers_has_the_owners_of_the_layers(tmp_path: Path) -> None:
    """The two origins of a manifest give the same one."""
    lower = [Member(b"srv/", "5", 33, 33), Member(b"srv/a", "0", 1, 2), Member(b"srv/b", "0", 205_001, 5000)]
    upper = [Member(b"srv/.wh.a", "0", 0, 0), Member(b"srv/c", "1", 0, 0, b"srv/b"), Member(b"opt/d", "2", 5, 6, b"../srv/b")]
    upper = [Member(b"srv/b", "0", 205_001, 5000), *upper]
    layout = Layout(tmp_path / "layout")
    layout.add(layout.image([layer_tar(lower), layer_tar(upper)], annotations={"org.opencontainers.image.ref.name": "it"}))
    apptainer("build", tmp_path / "image.sif", f"oci:{layout.directory}")
    found = owners_of([tmp_path / "image.sif"])
    assert found == owners_of([layout.directory])
    assert found.data == listed(tmp_path / "image.sif")
    assert found.count == 4
