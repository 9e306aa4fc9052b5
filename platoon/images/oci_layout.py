"""An image in an OCI layout: which manifest is the one for this machine, and where its layers lie.

Everything is found by digest from `index.json` on, and each document is held against the digest that led to it; the layers are only
named, with all that their reader must verify. Nothing outside `blobs/` is read but `oci-layout`, which says what the rest follows,
and `index.json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from platoon.artifacts.digests import hex_of, is_digest, sha256_bytes
from platoon.config.text import counted, few, printable, short_path
from platoon.errors import ConfigError, Problem
from platoon.images.documents import Document, ImageConfig, Items, Model, Platform, fits, parse
from platoon.images.saved_files import LayerBlob, SavedFiles

MARKER = "oci-layout"
# Indexes within indexes.
DEPTH_LIMIT = 4

INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
CONFIGS = ("application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json")
REFERENCE_NAME = "org.opencontainers.image.ref.name"
# With the repository before the tag, as Docker and containerd add it.
FULL_NAME = "io.containerd.image.name"


class _Layout(Document):
    version: Literal["1.0.0"] = Field(alias="imageLayoutVersion")


class _Descriptor(Document):
    media_type: str = Field(alias="mediaType")
    digest: str
    size: int = Field(ge=0)
    platform: Platform | None = None
    annotations: dict[str, str] | None = None


class _Index(Document):
    manifests: Items[_Descriptor]


class _Manifest(Document):
    config: _Descriptor
    layers: Items[_Descriptor]


@dataclass(frozen=True)
class _Image:
    """One image of a layout, its platform as its configuration says it. name: empty where nothing names it."""

    name: str
    descriptor: _Descriptor
    manifest: _Manifest
    config: ImageConfig


def layout_layers(files: SavedFiles, wanted: str, name: str | None = None) -> tuple[LayerBlob, ...]:
    """The layers of the one image of a layout that fits, lowest first.

    wanted: `os/architecture[/variant]`. name: the image's reference name or its manifest's digest, where a layout holds several.
    Raises ConfigError, naming what there is, where none or more than one fits.
    """
    parse(_Layout, files.read(MARKER), files.shown(MARKER))
    image = _choose(files, wanted, name)
    diff_ids = image.config.rootfs.diff_ids
    if len(diff_ids) != len(image.manifest.layers):
        rule = f"has {counted(len(image.manifest.layers), 'layer')}, and its configuration {len(diff_ids)} diff_ids"
        raise ConfigError(Problem(rule, file=files.shown(_blob(files, image.descriptor))))
    return tuple(
        LayerBlob(*files.place(_blob(files, layer)), layer.media_type, layer.size, layer.digest, diff_id)
        for layer, diff_id in zip(image.manifest.layers, diff_ids, strict=True)
    )


def _choose(files: SavedFiles, wanted: str, name: str | None) -> _Image:
    index = parse(_Index, files.read("index.json"), files.shown("index.json"))
    fitting, others = _sorted_out(files, index, wanted, name)
    # A variant that nobody asked for is worse than none.
    plain = [image for image in fitting if not image.config.variant]
    chosen = plain or fitting
    if len(chosen) == 1:
        return chosen[0]
    there = {_label(image.name, image.descriptor, image.config) for image in chosen}
    if not chosen:
        # A name that nothing bears hides all that there is.
        fitting, others = _sorted_out(files, index, wanted, None)
        there = others | {_label(image.name, image.descriptor, image.config) for image in fitting}
    called = f" called {short_path(name)}" if name else ""
    number = counted(len(chosen), "image") if chosen else "no image"
    rule = f"holds {number}{called} for {printable(wanted)}; there are: {few(sorted(there)) or 'none'}"
    advice = "choose with --platform and --image, by name or digest" if there else ""
    raise ConfigError(Problem(rule, file=files.shown(), advice=advice))


def _sorted_out(files: SavedFiles, index: _Index, wanted: str, name: str | None) -> tuple[list[_Image], set[str]]:
    """The images of that name for that platform, and the labels of those for others."""
    fitting: dict[str, _Image] = {}
    others: set[str] = set()
    for descriptor, called in _manifests(files, index, name, set()):
        # A layout may list images whose blobs it does not hold: what another platform's descriptor says is believed.
        if descriptor.platform is not None and not fits(descriptor.platform, wanted):
            others.add(_label(called, descriptor, descriptor.platform))
        elif (image := _image(files, descriptor, called)) is not None and fits(image.config, wanted):
            fitting[descriptor.digest] = image
        elif image is not None:
            others.add(_label(called, descriptor, image.config))
    return list(fitting.values()), others


def _manifests(
    files: SavedFiles, index: _Index, name: str | None, seen: set[tuple[str, str | None]], *, depth: int = 1, above: str = ""
) -> Iterator[tuple[_Descriptor, str]]:
    """The manifests of that name, in this index and those it lists, and what each is called; each once, however often it is listed.

    above: the name of the index, which is that of what it lists.
    """
    for descriptor in index.manifests:
        names = descriptor.annotations or {}
        called = names.get(REFERENCE_NAME) or names.get(FULL_NAME) or above
        is_named = name in (None, descriptor.digest, names.get(REFERENCE_NAME), names.get(FULL_NAME))
        if (visit := (descriptor.digest, None if is_named else name)) in seen:
            continue
        seen.add(visit)
        if descriptor.media_type in INDEXES:
            shown = files.shown(_blob(files, descriptor))
            if depth == DEPTH_LIMIT:
                raise ConfigError(Problem(f"is an index more than {DEPTH_LIMIT} deep in others", file=shown))
            inner = _document(files, _Index, descriptor)
            yield from _manifests(files, inner, visit[1], seen, depth=depth + 1, above=called)
        elif descriptor.media_type in MANIFESTS and is_named:
            yield descriptor, called


def _image(files: SavedFiles, descriptor: _Descriptor, name: str) -> _Image | None:
    """The image of a manifest; None for a signature or whatever else manifests are used for."""
    manifest = _document(files, _Manifest, descriptor)
    if manifest.config.media_type not in CONFIGS:
        return None
    return _Image(name, descriptor, manifest, _document(files, ImageConfig, manifest.config))


def _document(files: SavedFiles, model: type[Model], descriptor: _Descriptor) -> Model:
    return parse(model, _read_blob(files, descriptor), files.shown(_blob(files, descriptor)))


def _label(name: str, descriptor: _Descriptor, found: Platform) -> str:
    return short_path(f"{name or 'unnamed'} {descriptor.digest} ({found})")


def _blob(files: SavedFiles, descriptor: _Descriptor) -> str:
    if not is_digest(descriptor.digest):
        rule = f"names a blob by {printable(descriptor.digest)[:80]}, and only sha256 digests are read here"
        raise ConfigError(Problem(rule, file=files.shown()))
    return f"blobs/sha256/{hex_of(descriptor.digest)}"


def _read_blob(files: SavedFiles, descriptor: _Descriptor) -> bytes:
    name = _blob(files, descriptor)
    data = files.read(name)
    if len(data) != descriptor.size:
        rule = f"has {counted(len(data), 'byte')}, where {descriptor.size} are expected"
        raise ConfigError(Problem(rule, file=files.shown(name)))
    if (found := sha256_bytes(data)) != descriptor.digest:
        raise ConfigError(Problem(f"has the digest {found}, which is not its name", file=files.shown(name)))
    return data
