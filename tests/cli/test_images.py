"""`platoon images owners` as a shell sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from platoon import exits
from platoon.cli.main import main
from tests.images.layer_files import Layout, digest_of, layer_tar
from tests.twins.layer_owners import HEADER, Member

pytestmark = pytest.mark.unit

TAR = layer_tar([Member(b"a\xff", "0", 1, 2), Member(b"b\nc", "0", 1, 2)])
MANIFEST = HEADER + b"1 2 /a\xff\n"


def run(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> tuple[int, bytes, str]:
    with pytest.raises(SystemExit) as stop:
        main(["images", "owners", *arguments])
    captured = capfdbinary.readouterr()
    assert isinstance(stop.value.code, int)
    return stop.value.code, captured.out, captured.err.decode()


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "layer.tar"
    path.write_bytes(TAR)
    return path


def test_the_manifest_is_printed_as_its_bytes(layer: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    code, out, error = run(capfdbinary, "layer.tar")
    assert (code, out) == (exits.DONE, MANIFEST)
    assert error == "platoon: 1 path left out: no line can hold their names\n"


def test_programs_get_one_object(layer: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    row = {
        "files": ["layer.tar"],
        "digest": digest_of(MANIFEST),
        "owners": 1,
        "unrepresentable": 1,
        "rule": "platoon-owners-v1",
        "out": None,
    }
    assert json.loads(run(capfdbinary, "layer.tar", "--json")[1]) == row
    code, out, _ = run(capfdbinary, "layer.tar", "--json", "--out", "image.owners")
    assert (code, json.loads(out)) == (exits.DONE, row | {"out": "image.owners"})
    assert Path("image.owners").read_bytes() == MANIFEST
    assert run(capfdbinary, "layer.tar", "--out", "image.owners")[:2] == (exits.DONE, b"")


def test_a_layout_is_chosen_from(layer: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    layout = Layout(Path("layout"))
    layout.add(layout.image([TAR], "riscv64", annotations={"org.opencontainers.image.ref.name": "it"}))
    code, _, error = run(capfdbinary, "layout")
    assert code == exits.CONFIG and " (linux/riscv64) (choose with --platform and --image, by name or digest)" in error
    assert run(capfdbinary, "layout", "--platform", "linux/riscv64", "--image", "it")[:2] == (exits.DONE, MANIFEST)


@pytest.mark.parametrize("option", [("--platform", "linux/amd64"), ("--image", "it")])
def test_only_a_saved_image_is_chosen_from(layer: Path, capfdbinary: pytest.CaptureFixture[bytes], option: tuple[str, str]) -> None:
    Path("image.sqfs").write_bytes(b"hsqs" + bytes(200))
    for file, what in (("layer.tar", "a layer"), ("image.sqfs", "a squashfs")):
        code, out, error = run(capfdbinary, file, *option)
        assert (code, out) == (exits.USAGE, b"")
        text = "and no saved image, which --platform and --image choose from (leave them out)"
        assert error == f"platoon: {file}: is {what} {text}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ((), exits.USAGE, "Missing argument"),
        (("absent",), exits.CONFIG, "platoon: absent: cannot be read: No such file or directory"),
        (("text",), exits.CONFIG, "platoon: text: is neither a squashfs, a SIF, a saved image nor a tar\n"),
        (("empty",), exits.CONFIG, "platoon: empty: is neither a squashfs, a SIF, a saved image nor a tar\n"),
        (("/proc/self/mem",), exits.CONFIG, "platoon: /proc/self/mem: cannot be read: Input/output error"),
        (("layer.tar", "text"), exits.CONFIG, "platoon: text: is neither"),
        (("layer.tar", "."), exits.CONFIG, "platoon: .: is an image by itself (a saved one)"),
        (("layer.tar", "--out", "absent/x"), exits.DONE, ""),
    ],
)
def test_refusals(layer: Path, capfdbinary: pytest.CaptureFixture[bytes], arguments: tuple[str, ...], code: int, text: str) -> None:
    Path("text").write_text("text " * 200)
    Path("empty").touch()
    found, out, error = run(capfdbinary, *arguments)
    assert (found, out) == (code, b"") and text in error


def test_a_manifest_takes_the_place_of_no_image_and_of_no_link(layer: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Path("same.tar").symlink_to("layer.tar")
    Path("hard.tar").hardlink_to("layer.tar")
    for out in ("layer.tar", "./layer.tar", "same.tar", "hard.tar"):
        code, _, error = run(capfdbinary, "layer.tar", "--out", out)
        assert code == exits.CONFIG and "is one of the images that are read (write the manifest to another file)" in error
    Path("notes").write_text("kept")
    Path("link").symlink_to("notes")
    code, _, error = run(capfdbinary, "layer.tar", "--out", "link")
    assert code != exits.DONE and "link" in error
    assert Path("link").is_symlink() and Path("notes").read_text() == "kept" and layer.read_bytes() == TAR
