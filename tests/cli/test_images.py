"""`platoon images owners` as a shell sees it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest

from platoon import exits
from platoon.cli.main import main
from tests.images.layer_files import Layout, digest_of, layer_tar
from tests.native.sif_files import partition, sif
from tests.twins.layer_owners import HEADER, Member

pytestmark = pytest.mark.unit

TAR = layer_tar([Member(b"a\xff", "0", 1, 2), Member(b"b\nc", "0", 1, 2)])
NEITHER = "is neither a squashfs, a SIF, a saved image nor a tar (name an image, or the layers of one, lowest first)"
SQUASHFS = (Path(__file__).parents[2] / "native/fuzz/corpus/squash_owners/zstd.sqfs").read_bytes()
ZSTD = pa.compress(TAR, codec="zstd", asbytes=True)
SIF = sif([partition(SQUASHFS)])
AGAIN = "(damaged, or not all of it: save or copy it again)"
CONVERT = "(layers are plain tars or in gzip or zstd, saved images plain tars, file systems squashfs 4.0: convert it)"
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


@pytest.mark.parametrize(
    ("data", "text", "advice"),
    [
        (TAR[:1000], "ends 24 bytes too early", AGAIN),
        (gzip.compress(TAR)[:-9], "gzip at byte", AGAIN),
        (gzip.compress(TAR)[:3], "gzip at byte 3: ends in the middle of a header", AGAIN),
        (ZSTD[:-1], "zstd at byte", AGAIN),
        (ZSTD[:4], "zstd at byte 4: ends in the middle of a frame", AGAIN),
        (TAR[:1148] + b"7" * 11 + TAR[1159:], "the checksum is", AGAIN),
        (SQUASHFS[:50], "superblock: 96 bytes at byte 0 do not fit before byte 50", AGAIN),
        (SQUASHFS[:-1], "bytes used: 611 bytes at byte 0 do not fit", AGAIN),
        (SQUASHFS[:40] + b"\xff" * 8 + SQUASHFS[48:], "bytes used: 18446744073709551615 bytes at byte 0 do not fit", AGAIN),
        (SIF[:50], "SIF header: 128 bytes at byte 0 do not fit before byte 50", AGAIN),
        (SIF[:-1], "SIF object 1: 611 bytes at byte 713 do not fit", AGAIN),
        (SIF[:88] + b"\xff" * 7 + b"\x7f" + SIF[96:], "the number of descriptors is 9223372036854775807", AGAIN),
        (sif([partition(b"text" * 100)]), 'a squashfs is expected at byte 713, where "text" stands', AGAIN),
        (sif([]), "a SIF without a system partition is not read here", CONVERT),
        (b"sqsh" + SQUASHFS[4:], "big-endian squashfs is not read here", CONVERT),
        (b"\xfd7zXZ\0" + TAR, "a layer in xz is not read here", CONVERT),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_fault_and_what_to_do(
    layer: Path, capfdbinary: pytest.CaptureFixture[bytes], data: bytes, text: str, advice: str
) -> None:
    layer.write_bytes(data)
    code, out, error = run(capfdbinary, "layer.tar")
    assert (code, out, error.count("\n")) == (exits.CONFIG, b"", 1)
    assert error.startswith("platoon: layer.tar: ") and text in error and error.endswith(f"{advice}\n")


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
        (("text",), exits.CONFIG, f"platoon: text: {NEITHER}\n"),
        (("empty",), exits.CONFIG, f"platoon: empty: {NEITHER}\n"),
        (("/dev/zero",), exits.CONFIG, "platoon: /dev/zero: cannot be read: is not a regular file\n"),
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
