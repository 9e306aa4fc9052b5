"""Owner manifests of layouts and of layer files."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from platoon import _native
from platoon.errors import ConfigError
from platoon.images.documents import this_platform
from platoon.images.owners import SQUASHFS_LAYER, image_layers, owners_of
from platoon.images.saved_files import DOCUMENT_BYTES, DirectoryFiles, LayerBlob
from tests.images.layer_files import CONFIG, HERE, INDEX, MANIFEST, Layout, digest_of, layer_tar
from tests.twins.layer_owners import HEADER, Member

pytestmark = pytest.mark.unit

LOWER = layer_tar([Member(b"srv/", "5", 33, 33), Member(b"srv/a", "0", 1, 2), Member(b"srv/b", "0", 1, 2)])
UPPER = layer_tar([Member(b"srv/.wh.a", "0", 0, 0), Member(b"srv/c", "0", 205001, 5000)])
MANIFEST_TEXT = HEADER + b"33 33 /srv\n1 2 /srv/b\n205001 5000 /srv/c\n"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "layout")


def layers_of(layout: Layout, wanted: str | None = None, name: str | None = None) -> tuple[LayerBlob, ...]:
    return image_layers(DirectoryFiles(layout.directory), wanted, name)


def refusal(layout: Layout, **chosen: str) -> str:
    with pytest.raises(ConfigError) as caught:
        layers_of(layout, **chosen)
    return str(caught.value)


def test_layer_files_lowest_first(tmp_path: Path) -> None:
    paths = [tmp_path / "lower.tar", tmp_path / "upper.tar.gz"]
    paths[0].write_bytes(LOWER)
    paths[1].write_bytes(gzip.compress(UPPER))
    manifest = owners_of(paths)
    assert (manifest.data, manifest.count, manifest.unrepresentable) == (MANIFEST_TEXT, 3, 0)
    assert manifest.digest == f"sha256:{hashlib.sha256(MANIFEST_TEXT).hexdigest()}"
    assert owners_of(paths[::-1]).data != MANIFEST_TEXT


def test_u45_owners_of_a_squashfs_need_no_tool(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a program is run")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setenv("PATH", "/nonexistent")
    found = owners_of([checkout / "native/fuzz/corpus/squash_owners/zstd.sqfs"])
    assert (found.count, found.unrepresentable) == (19, 1)


def test_u56_what_a_rootless_runtime_would_give_away_is_recorded(layout: Layout) -> None:
    members = [
        Member(b"usr/bin/write", "0", 0, 5),
        Member(b"usr/bin/wall", "1", 0, 0, b"usr/bin/write"),
        Member(b"var/spool/postfix/", "5", 100, 0),
        Member(b"var/spool/postfix/public/", "5", 100, 102),
    ]
    layout.add(layout.image([layer_tar(members)]))
    expected = b"0 5 /usr/bin/wall\n0 5 /usr/bin/write\n100 0 /var/spool/postfix\n100 102 /var/spool/postfix/public\n"
    assert owners_of([layout.directory]).data == HEADER + expected


def test_a_squashfs_of_a_layout_is_verified_before_it_is_read(layout: Layout, checkout: Path) -> None:
    squashfs = checkout / "native/fuzz/corpus/squash_owners/zstd.sqfs"
    image = squashfs.read_bytes()
    layer = layout.blob(image, SQUASHFS_LAYER)
    config = {"os": "linux", "architecture": HERE, "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}
    document = {"schemaVersion": 2, "config": layout.document(config, CONFIG), "layers": [layer]}
    layout.add(layout.document(document, MANIFEST))
    assert owners_of([layout.directory]) == owners_of([squashfs])
    blob = layout.directory / "blobs/sha256" / layer["digest"].removeprefix("sha256:")
    for data, found in ((image[:-1] + b"x", "sha256:"), (image + b"x", f"{len(image) + 1} bytes")):
        blob.write_bytes(data)
        with pytest.raises(_native.DataError, match=f"the image at byte 0: {found}.*, where .* is expected"):
            owners_of([layout.directory])


def test_names_that_no_line_holds_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "layer"
    path.write_bytes(layer_tar([Member(b"a\nb", "0", 1, 1), Member(b"a\rb", "0", 1, 1), Member(b"c d \xff", "0", 1, 1)]))
    manifest = owners_of([path])
    assert (manifest.data, manifest.count, manifest.unrepresentable) == (HEADER + b"1 1 /c d \xff\n", 1, 2)


def test_a_layout_with_one_image(layout: Layout) -> None:
    layout.add(layout.image([LOWER, UPPER]))
    assert owners_of([layout.directory]).data == MANIFEST_TEXT
    layers = layers_of(layout)
    assert [layer.diff_id for layer in layers] == [digest_of(LOWER), digest_of(UPPER)]


def test_the_image_for_this_machine_is_chosen(layout: Layout) -> None:
    """An index within the index, images of other machines (of which one is not there), an attestation and a signature."""
    absent = {
        "digest": digest_of(b"absent"),
        "size": 6,
        "mediaType": MANIFEST,
        "platform": {"os": "linux", "architecture": "s390x"},
    }
    unknown = {"os": "unknown", "architecture": "unknown"}
    inner = [
        layout.image([LOWER], platform={"os": "linux", "architecture": HERE}),
        layout.image([UPPER], architecture="riscv64"),
        layout.image([UPPER, UPPER], architecture=HERE, platform=unknown),
        absent,
    ]
    layout.add(layout.document({"manifests": inner}, INDEX))
    layout.add(layout.document({"config": layout.blob(b"{}", "application/vnd.dev.signature+json"), "layers": []}, MANIFEST))
    assert [layer.diff_id for layer in layers_of(layout)] == [digest_of(LOWER)]
    assert [layer.diff_id for layer in layers_of(layout, "linux/riscv64")] == [digest_of(UPPER)]
    text = refusal(layout, wanted="windows/amd64")
    assert "holds no image for windows/amd64; there are: " in text and text.endswith(
        "(choose with --platform and --image, by name or digest)"
    )
    assert all(platform in text for platform in (this_platform(), "linux/riscv64", "linux/s390x", "unknown/unknown"))


def test_several_images_must_be_chosen_from(layout: Layout) -> None:
    first = layout.add(layout.image([LOWER], annotations={"org.opencontainers.image.ref.name": "one"}))
    second = layout.add(layout.image([UPPER], annotations={"org.opencontainers.image.ref.name": "two"}))
    text = refusal(layout)
    assert f"holds 2 images for {this_platform()}" in text and "choose with --platform and --image" in text
    assert f"one {first['digest']}" in text and f"two {second['digest']}" in text
    assert layers_of(layout, name="two")[0].diff_id == digest_of(UPPER)
    assert layers_of(layout, name=first["digest"])[0].diff_id == digest_of(LOWER)
    text = refusal(layout, name="three")
    assert f"holds no image called three for {this_platform()}; there are: one {first['digest']} ({this_platform()}), two" in text


def test_an_image_without_a_name_is_told_and_chosen_by_its_digest(layout: Layout) -> None:
    only = layout.add(layout.image([LOWER]))
    text = refusal(layout, name="one")
    there = f"there are: unnamed {only['digest']} ({this_platform()}) (choose with --platform and --image, by name or digest)"
    assert text.endswith(f"holds no image called one for {this_platform()}; {there}")
    assert len(layers_of(layout, name=only["digest"])) == 1


def test_what_an_index_within_the_index_lists_goes_by_its_name(layout: Layout) -> None:
    inner = layout.document({"manifests": [layout.image([LOWER])]}, INDEX)
    layout.add({**inner, "annotations": {"org.opencontainers.image.ref.name": "one"}})
    assert "there are: one sha256:" in refusal(layout, name="two")
    assert len(layers_of(layout, name="one")) == 1


def test_of_many_images_a_few_are_told(layout: Layout) -> None:
    for number in range(50):
        names = {"org.opencontainers.image.ref.name": f"{'n' * 5000}{number}"}
        layout.manifests.append(layout.image([LOWER], f"a{number}", annotations=names))
    layout.write_index()
    text = refusal(layout, wanted="linux/none")
    assert "and 44 more" in text and len(text) < 3000


def test_variants(layout: Layout) -> None:
    for variant, tar in (("v7", LOWER), ("v6", UPPER)):
        layout.add(layout.image([tar], "arm", variant))
    assert "holds 2 images for linux/arm; there are: " in refusal(layout, wanted="linux/arm")
    assert layers_of(layout, "linux/arm/v6")[0].diff_id == digest_of(UPPER)
    layout.add(layout.image([LOWER, UPPER], "arm"))
    assert len(layers_of(layout, "linux/arm")) == 2


def test_an_image_that_is_listed_twice_is_one(layout: Layout) -> None:
    image = layout.add(layout.image([LOWER]))
    layout.add({**image, "annotations": {"org.opencontainers.image.ref.name": "again"}})
    assert len(layers_of(layout)) == 1


def test_damaged_documents_are_named(layout: Layout) -> None:
    image = layout.add(layout.image([LOWER]))
    path = layout.path(image)
    whole = path.read_bytes()
    for data, rule in (
        (whole + b" ", f"has {len(whole) + 1} bytes, where {len(whole)} are expected"),
        (whole.replace(b"schema", b"Schema"), "which is not its name"),
        (b" " * (DOCUMENT_BYTES + 1), "is larger than"),
    ):
        path.write_bytes(data)
        text = refusal(layout)
        assert str(path) in text and rule in text
    path.unlink()
    assert f"{path}: is missing" in refusal(layout)
    path.mkdir()
    assert f"{path}: is missing, or no file" in refusal(layout)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "index.json: must be a mapping, got []"),
        ("{}", "index.json: manifests: is required"),
        (json.dumps({"manifests": [{"digest": "sha256:00", "size": 1}]}), "index.json: manifests.0.mediaType: is required"),
        (json.dumps({"manifests": [1] * 100_000}), "index.json: manifests.0: must be a mapping, got 1"),
        ('{"manifests": [3]}', "index.json: manifests.0: must be a mapping, got 3"),
        ('{"manifests": [{"digest": 1, "size": -1}]}', "manifests.0.digest: must be text, got 1\n"),
        (json.dumps({"manifests": [{"digest": "sha512:00", "size": 1, "mediaType": MANIFEST}]}), "names a blob by sha512:00"),
        (json.dumps({"manifests": [{"digest": "sha256:../x", "size": 1, "mediaType": INDEX}]}), "names a blob by sha256:../x"),
        ('{"manifests": []}', "there are: none"),
    ],
)
def test_an_index_that_is_none(layout: Layout, text: str, rule: str) -> None:
    (layout.directory / "index.json").write_text(text)
    assert rule in (told := refusal(layout)) and len(told) < 1000


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('{"imageLayoutVersion": "2.0.0"}', 'imageLayoutVersion: must be one of 1.0.0, got "2.0.0"'),
        ('{"imageLayoutVersion": 1}', "imageLayoutVersion: must be one of 1.0.0, got 1"),
        ("{}", "imageLayoutVersion: is required"),
        ("[]", "must be a mapping, got []"),
        ("", "is no JSON"),
        (" " * (DOCUMENT_BYTES + 1), "is larger than"),
    ],
)
def test_a_layout_of_another_version_is_not_read(layout: Layout, text: str, rule: str) -> None:
    layout.add(layout.image([LOWER]))
    marker = layout.directory / "oci-layout"
    marker.write_text(text)
    assert refusal(layout).startswith(f"{marker}: {rule}")


def test_indexes_are_not_followed_for_ever(layout: Layout) -> None:
    descriptor = layout.image([LOWER])
    for _ in range(5):
        # Many times the same: each is read once.
        descriptor = layout.document({"manifests": [descriptor] * 500}, INDEX)
    layout.add(descriptor)
    assert "is an index more than 4 deep in others" in refusal(layout)


def test_layers_and_their_digests_must_be_as_many(layout: Layout) -> None:
    config = layout.document({"os": "linux", "architecture": HERE, "rootfs": {"diff_ids": []}}, CONFIG)
    layer = layout.blob(LOWER, "application/vnd.oci.image.layer.v1.tar")
    layout.add(layout.document({"config": config, "layers": [layer]}, MANIFEST))
    assert "has 1 layer, and its configuration 0 diff_ids" in refusal(layout)


def test_every_digest_of_a_layout_is_verified(layout: Layout) -> None:
    layout.add(layout.image([LOWER, UPPER]))
    layer = layers_of(layout)[1]
    whole = layer.path.read_bytes()
    for data, text in (
        (whole[:-1] + bytes([whole[-1] ^ 1]), "the digest is sha256:"),
        (whole[:-1], f"{len(whole) - 1} bytes, where the manifest says {len(whole)}"),
    ):
        layer.path.write_bytes(data)
        with pytest.raises(_native.DataError, match=text):
            owners_of([layout.directory])


def test_u39_a_layer_that_is_not_what_its_media_type_says(layout: Layout) -> None:
    config = layout.document({"os": "linux", "architecture": HERE, "rootfs": {"diff_ids": [digest_of(LOWER)]}}, CONFIG)
    for media_type in ("application/vnd.oci.image.layer.v1.tar+zstd", "application/vnd.docker.image.rootfs.diff.tar.gzip"):
        layer = layout.blob(LOWER, media_type)
        layout.manifests.clear()
        layout.add(layout.document({"config": config, "layers": [layer]}, MANIFEST))
        with pytest.raises(
            _native.DataError, match=f"media type {media_type.replace('+', '.')} says .*, the first bytes say plain tar"
        ):
            owners_of([layout.directory])


def test_what_is_no_image_is_refused(tmp_path: Path, layout: Layout) -> None:
    with pytest.raises(ConfigError, match="is no saved image"):
        owners_of([tmp_path])
    (tmp_path / "x").write_bytes(LOWER)
    with pytest.raises(ConfigError, match="is an image by itself"):
        owners_of([tmp_path / "x", layout.directory])
    with pytest.raises(FileNotFoundError):
        owners_of([tmp_path / "absent"])
    text = tmp_path / "text"
    text.write_text("no tar, but long enough for a header" * 20)
    with pytest.raises(ConfigError, match="text: is neither a squashfs"):
        owners_of([text])
    for magic, what in ((b"BZh91AY&SY", "bzip2"), (b"\xfd7zXZ\0", "xz")):
        text.write_bytes(magic)
        with pytest.raises(_native.UnsupportedError, match=f"a layer in {what} is not read here"):
            owners_of([text])


def test_u42_a_blob_that_is_a_link_is_read_by_its_digest(layout: Layout, tmp_path: Path) -> None:
    """Layouts share blobs by links; what a digest vouches for may lie anywhere."""
    image = layout.add(layout.image([LOWER]))
    elsewhere = tmp_path / "elsewhere"
    shutil.move(layout.path(image), elsewhere)
    layout.path(image).symlink_to(elsewhere)
    assert owners_of([layout.directory]).count == 3
    elsewhere.write_text(json.dumps({"config": {}, "layers": []}))
    assert "bytes, where" in refusal(layout)
