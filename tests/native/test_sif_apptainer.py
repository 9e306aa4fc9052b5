"""SIF files that Apptainer wrote."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from platoon import _native
from tests.native.squashfs_trees import as_owners

pytestmark = pytest.mark.hpc


def test_a_sif_of_apptainer(tmp_path: Path, checkout: Path) -> None:
    squashfs = checkout / "native/fuzz/corpus/squash_owners/zstd.sqfs"
    definition = tmp_path / "definition"
    definition.write_text("Bootstrap: docker\n")
    path = tmp_path / "image.sif"
    partition = ("--datatype", "4", "--parttype", "2", "--partfs", "1", "--partarch", "2", "--filename", "squash.img")
    for arguments in (
        ("new", path),
        ("add", *partition, path, squashfs),
        ("add", "--datatype", "1", "--groupid", "1", path, definition),
    ):
        subprocess.run(["apptainer", "sif", *arguments], check=True, stdout=subprocess.DEVNULL)
    system, text = _native.sif_objects(path)
    assert (system["kind"], system["file_system"], system["role"]) == ("FS", "squashfs", "primary system")
    assert (system["name"], system["size_bytes"]) == ("squash.img", squashfs.stat().st_size)
    assert (text["kind"], text["group"]) == ("Def.FILE", 1)
    assert path.read_bytes()[text["offset"] :][: text["size_bytes"]] == definition.read_bytes()
    assert as_owners(_native.image_entries(path)) == as_owners(_native.squash_entries(squashfs))
