"""Images as `docker save` and writers of OCI archives leave them: read where they lie, as a directory or a tar."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from platoon import _native
from platoon.errors import ConfigError
from platoon.images.owners import owners_of
from platoon.images.saved_files import DOCUMENT_BYTES
from tests.images.layer_files import HERE, Layout, digest_of, layer_tar
from tests.twins.layer_owners import HEADER, Member

pytestmark = pytest.mark.unit

LOWER = layer_tar([Member(b"srv/", "5", 33, 33), Member(b"srv/a", "0", 1, 2)])
UPPER = layer_tar([Member(b"srv/.wh.a", "0", 0, 0), Member(b"srv/c", "0", 205001, 5000)])
OWNERS = HEADER + b"33 33 /srv\n205001 5000 /srv/c\n"

# A file's bytes, or the target of a symbolic link.
Files = dict[str, bytes | str]
Save = Callable[[Mapping[str, bytes | str]], Path]


def image(layers: list[bytes], names: list[str] | None, architecture: str = HERE) -> tuple[Files, dict[str, Any]]:
    """The files of an image as Docker before release 25 names them, and its entry in manifest.json."""
    config = json.dumps({"os": "linux", "architecture": architecture, "rootfs": {"diff_ids": [digest_of(tar) for tar in layers]}})
    config_name = digest_of(config.encode()).removeprefix("sha256:") + ".json"
    files: Files = {config_name: config.encode()}
    places = []
    for tar in layers:
        places.append(f"{digest_of(b'id' + tar).removeprefix('sha256:')}/layer.tar")
        files[places[-1]] = tar
    return files, {"Config": config_name, "RepoTags": names, "Layers": places}


def saved(*images: tuple[Files, dict[str, Any]]) -> Files:
    files: Files = {name: data for held, _ in images for name, data in held.items()}
    return {**files, "manifest.json": json.dumps([entry for _, entry in images]).encode(), "repositories": b"{}"}


@pytest.fixture(params=["directory", "archive"])
def save(request: pytest.FixtureRequest, tmp_path: Path) -> Save:
    return directory_of(tmp_path) if request.param == "directory" else archive_of(tmp_path)


def directory_of(place: Path) -> Save:
    def write(files: Mapping[str, bytes | str]) -> Path:
        for name, data in files.items():
            path = place / "image" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if isinstance(data, str):
                path.symlink_to(data)
            else:
                path.write_bytes(data)
        return place / "image"

    return write


def archive_of(place: Path) -> Save:
    def write(files: Mapping[str, bytes | str]) -> Path:
        with tarfile.open(place / "image.tar", "w") as archive:
            for name, data in files.items():
                member = tarfile.TarInfo(f"./{name}")
                if isinstance(data, str):
                    member.type, member.linkname = tarfile.SYMTYPE, data
                    archive.addfile(member)
                else:
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
        return place / "image.tar"

    return write


def refusal(path: Path, **chosen: str) -> str:
    with pytest.raises(ConfigError) as caught:
        owners_of([path], **chosen)
    return str(caught.value)


def test_an_image_of_docker_save(save: Save) -> None:
    manifest = owners_of([save(saved(image([LOWER, UPPER], ["one:latest"])))])
    assert (manifest.data, manifest.count) == (OWNERS, 2)


def test_layers_may_be_compressed_and_shared_by_links(save: Save) -> None:
    files, entry = image([LOWER, UPPER, UPPER + b"\0" * 512], None)
    lower, upper, again = entry["Layers"]
    files[again] = f"../{upper}"
    files[lower] = gzip.compress(LOWER)
    config = json.loads(files[entry["Config"]])
    config["rootfs"]["diff_ids"][2] = digest_of(UPPER)
    text = json.dumps(config).encode()
    name = digest_of(text)
    files[name] = text
    assert owners_of([save(saved((files, {**entry, "Config": name})))]).data == OWNERS


def test_one_of_several_images_must_be_chosen(save: Save) -> None:
    one, two = image([LOWER], ["one:1", "one:latest"]), image([LOWER, UPPER], ["two:latest"])
    path = save(saved(one, two, image([UPPER], None, "riscv64")))
    text = refusal(path)
    assert f"holds 2 images for linux/{HERE}; there are: one:1 one:latest (linux/{HERE}), two:latest" in text
    assert "--image" in text
    assert f"holds no image called three for linux/{HERE}; there are: one:1 one:latest, two:latest" in refusal(path, name="three")
    assert owners_of([path], name="two:latest").data == OWNERS
    assert owners_of([path], name=one[1]["Config"]).count == 2
    assert owners_of([path], platform="linux/riscv64").count == 1
    assert "holds no image for linux/s390x" in refusal(path, platform="linux/s390x")


def test_everything_is_held_against_its_digest(save: Save) -> None:
    files, entry = image([LOWER, UPPER], ["one"])
    layer = entry["Layers"][0]
    with pytest.raises(_native.DataError, match=f"{layer}: the diff_id is {digest_of(UPPER)}, where {digest_of(LOWER)} is"):
        owners_of([save(saved(({**files, layer: UPPER}, entry)))])
    with pytest.raises(_native.DataError, match=f"{layer}: tar at byte"):
        owners_of([save(saved(({**files, layer: LOWER[:1000]}, entry)))])
    assert "which is not its name" in refusal(save(saved(({**files, entry["Config"]: b"{}"}, entry))))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"Config": "absent"}, "absent: is missing, or no file"),
        ({"Config": "../x"}, "names ../x, which is no file in it"),
        ({"Layers": ["/etc/passwd", "repositories"]}, "names /etc/passwd, which is no file in it"),
        ({"Layers": ["", "repositories"]}, "names nothing, which is no file in it"),
        ({"Layers": []}, "has 0 layers, and its configuration 2 diff_ids"),
        ({"Config": 3}, "manifest.json: 0.Config: must be text, got 3"),
        ({"Layers": None}, "manifest.json: 0.Layers: must be a list, got null"),
    ],
)
def test_a_manifest_that_leads_nowhere(save: Save, changes: dict[str, Any], text: str) -> None:
    files, entry = image([LOWER, UPPER], ["one"])
    assert text in refusal(save(saved((files, entry | changes))))


def test_links_of_an_archive_stay_in_it(tmp_path: Path) -> None:
    files, entry = image([LOWER], ["one"])
    layer = entry["Layers"][0]
    for target, text in (
        ("/etc/passwd", "is a link that leads out of its archive"),
        ("../../x", "is a link that leads out of its archive"),
        ("layer.tar", "is a link that passes more than 8 links"),
        ("gone", "is missing, or no file"),
    ):
        assert f"{layer}: {text}" in refusal(archive_of(tmp_path)(saved(({**files, layer: target}, entry))))


def test_documents_are_bounded(save: Save) -> None:
    assert "manifest.json: is larger than" in refusal(save({"manifest.json": b" " * (DOCUMENT_BYTES + 1)}))


def test_an_archive_of_an_oci_layout(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    layout.add(layout.image([LOWER, UPPER], annotations={"io.containerd.image.name": "registry.example/one:2"}))
    layout.add(layout.image([LOWER], annotations={"io.containerd.image.name": "registry.example/one:1"}))
    files: Files = {
        str(path.relative_to(layout.directory)): path.read_bytes() for path in layout.directory.rglob("*") if path.is_file()
    }
    path = archive_of(tmp_path)(files)
    assert owners_of([path], name="registry.example/one:2").data == OWNERS
    assert "holds 2 images" in refusal(path)


def test_a_squashfs_in_an_archive_is_refused(tmp_path: Path) -> None:
    files, entry = image([LOWER], ["one"])
    files[entry["Layers"][0]] = b"hsqs" + bytes(2000)
    with pytest.raises(_native.UnsupportedError, match="a squashfs image in the place of a layer"):
        owners_of([archive_of(tmp_path)(saved((files, entry)))])


def test_an_image_stands_alone(tmp_path: Path) -> None:
    path, layer = archive_of(tmp_path)(saved(image([LOWER], ["one"]))), tmp_path / "layer"
    layer.write_bytes(LOWER)
    with pytest.raises(ConfigError, match=r"image\.tar: is an image by itself \(a saved one\)"):
        owners_of([layer, path])
