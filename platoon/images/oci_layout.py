"""An image in an OCI layout directory: which manifest is the one for this machine, and where its layers lie.

Everything is found by digest from `index.json` on, and each document is held against the digest that led to it; the layers are only
named, with all that their reader must verify. Nothing outside `blobs/` is read but `oci-layout` and `index.json`.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from platoon.artifacts.digests import hex_of, is_digest, sha256_bytes
from platoon.artifacts.reading import parse_json
from platoon.config.text import counted, printable
from platoon.errors import ConfigError, Problem

# What registries take; a document that is larger is none.
DOCUMENT_BYTES = 4 << 20
# Indexes within indexes.
DEPTH_LIMIT = 4

INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
CONFIGS = ("application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json")
REFERENCE_NAME = "org.opencontainers.image.ref.name"

# As OCI names them, by what the kernel says of the machine.
ARCHITECTURES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm",
    "i686": "386",
    "loongarch64": "loong64",
}

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class LayerBlob:
    """A layer and what must hold of it. digest: of the file as stored. diff_id: of the tar in it."""

    path: Path
    media_type: str
    size_bytes: int
    digest: str
    diff_id: str


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _Platform(_Document):
    os: str = ""
    architecture: str = ""
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


class _Descriptor(_Document):
    media_type: str = Field("", alias="mediaType")
    digest: str
    size: int = Field(ge=0)
    platform: _Platform | None = None
    annotations: dict[str, str] | None = None


class _Index(_Document):
    manifests: list[_Descriptor]


class _Manifest(_Document):
    config: _Descriptor
    layers: list[_Descriptor]


class _RootFs(_Document):
    diff_ids: list[str]


class _Config(_Platform):
    rootfs: _RootFs


@dataclass(frozen=True)
class _Image:
    """One image of a layout, its platform as its configuration says it."""

    descriptor: _Descriptor
    manifest: _Manifest
    config: _Config


def this_platform() -> str:
    """`linux/<architecture>` of this machine, as OCI names it."""
    machine = platform.machine()
    return f"linux/{ARCHITECTURES.get(machine, machine)}"


def layout_layers(directory: Path, wanted: str | None = None, name: str | None = None) -> tuple[LayerBlob, ...]:
    """The layers of the one image in `directory` that fits, lowest first.

    wanted: `os/architecture[/variant]`, this machine's without it. name: the image's reference name or its manifest's digest, where
    a layout holds several. Raises ConfigError, naming what there is, where none or more than one fits.
    """
    wanted = wanted or this_platform()
    marker = directory / "oci-layout"
    if not marker.is_file():
        raise ConfigError(Problem("is no OCI layout: it holds no file oci-layout", file=_shown(directory)))
    image = _choose(directory, wanted, name)
    diff_ids = image.config.rootfs.diff_ids
    if len(diff_ids) != len(image.manifest.layers):
        rule = f"has {counted(len(image.manifest.layers), 'layer')}, and its configuration {len(diff_ids)} diff_ids"
        raise ConfigError(Problem(rule, file=_shown(_blob(directory, image.descriptor))))
    return tuple(
        LayerBlob(_blob(directory, layer), layer.media_type, layer.size, layer.digest, diff_id)
        for layer, diff_id in zip(image.manifest.layers, diff_ids, strict=True)
    )


def _choose(directory: Path, wanted: str, name: str | None) -> _Image:
    index = _parse(_Index, _read(directory / "index.json"), directory / "index.json")
    fitting: dict[str, _Image] = {}
    others: set[str] = set()
    for descriptor in _manifests(directory, index, name, set()):
        # A layout may list images whose blobs it does not hold: what another platform's descriptor says is believed.
        if descriptor.platform is not None and not _fits(descriptor.platform, wanted):
            others.add(str(descriptor.platform))
        elif (image := _image(directory, descriptor)) is not None and _fits(image.config, wanted):
            fitting[descriptor.digest] = image
        elif image is not None:
            others.add(str(image.config))
    # A variant that nobody asked for is worse than none.
    plain = [image for image in fitting.values() if not image.config.variant]
    chosen = plain or list(fitting.values())
    if len(chosen) == 1:
        return chosen[0]
    called = f" called {printable(name)}" if name else ""
    if not chosen:
        there = printable(", ".join(sorted(others))) or "none"
        rule = f"holds no image{called} for {printable(wanted)}; there are: {there}"
        raise ConfigError(Problem(rule, file=_shown(directory), advice="choose with --platform and --image"))
    rule = f"holds {len(chosen)} images{called} for {printable(wanted)}: {printable(', '.join(sorted(map(_label, chosen))))}"
    raise ConfigError(Problem(rule, file=_shown(directory), advice="choose one with --image or --platform"))


def _manifests(
    directory: Path, index: _Index, name: str | None, seen: set[tuple[str, str | None]], depth: int = 1
) -> Iterator[_Descriptor]:
    """The manifests of that name, in this index and those it lists; each once, however often it is listed."""
    for descriptor in index.manifests:
        is_named = name in (None, descriptor.digest, (descriptor.annotations or {}).get(REFERENCE_NAME))
        if (visit := (descriptor.digest, None if is_named else name)) in seen:
            continue
        seen.add(visit)
        if descriptor.media_type in INDEXES:
            path = _blob(directory, descriptor)
            if depth == DEPTH_LIMIT:
                raise ConfigError(Problem(f"is an index more than {DEPTH_LIMIT} deep in others", file=_shown(path)))
            inner = _parse(_Index, _read_blob(directory, descriptor), path)
            yield from _manifests(directory, inner, visit[1], seen, depth + 1)
        elif descriptor.media_type in MANIFESTS and is_named:
            yield descriptor


def _image(directory: Path, descriptor: _Descriptor) -> _Image | None:
    """The image of a manifest; None for a signature or whatever else manifests are used for."""
    manifest = _parse(_Manifest, _read_blob(directory, descriptor), _blob(directory, descriptor))
    if manifest.config.media_type not in CONFIGS:
        return None
    config = _parse(_Config, _read_blob(directory, manifest.config), _blob(directory, manifest.config))
    return _Image(descriptor, manifest, config)


def _fits(config: _Platform, wanted: str) -> bool:
    system, _, rest = wanted.partition("/")
    architecture, _, variant = rest.partition("/")
    return (config.os, config.architecture) == (system, architecture) and variant in ("", config.variant)


def _label(image: _Image) -> str:
    name = (image.descriptor.annotations or {}).get(REFERENCE_NAME, "")
    variant = f" ({image.config})" if image.config.variant else ""
    return f"{name} {image.descriptor.digest}".strip() + variant


def _blob(directory: Path, descriptor: _Descriptor) -> Path:
    if not is_digest(descriptor.digest):
        rule = f"names a blob by {printable(descriptor.digest)[:80]}, and only sha256 digests are read here"
        raise ConfigError(Problem(rule, file=_shown(directory)))
    return directory / "blobs" / "sha256" / hex_of(descriptor.digest)


def _read_blob(directory: Path, descriptor: _Descriptor) -> bytes:
    path = _blob(directory, descriptor)
    data = _read(path)
    if len(data) != descriptor.size:
        raise ConfigError(Problem(f"has {counted(len(data), 'byte')}, where {descriptor.size} are expected", file=_shown(path)))
    if (found := sha256_bytes(data)) != descriptor.digest:
        raise ConfigError(Problem(f"has the digest {found}, which is not its name", file=_shown(path)))
    return data


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise ConfigError(Problem("is missing, or no file", file=_shown(path)))
        with path.open("rb") as file:
            data = file.read(DOCUMENT_BYTES + 1)
    except OSError as error:
        raise ConfigError(Problem(f"cannot be read: {error.strerror}", file=_shown(path))) from error
    if len(data) > DOCUMENT_BYTES:
        raise ConfigError(Problem(f"is larger than {DOCUMENT_BYTES} bytes, and so no document of an image", file=_shown(path)))
    return data


def _parse(model: type[Model], data: bytes, path: Path) -> Model:
    try:
        value: Any = parse_json(data)
    except ValueError as error:
        raise ConfigError(Problem(f"is no JSON: {printable(str(error))}", file=_shown(path))) from error
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = [
            Problem(printable(fault["msg"]), key=printable(".".join(str(part) for part in fault["loc"])), file=_shown(path))
            for fault in error.errors(include_url=False, include_input=False)
        ]
        raise ConfigError(problems) from error


def _shown(path: Path) -> str:
    return printable(str(path))
