"""An image as `docker save` wrote it before it wrote OCI layouts, and as Podman, Skopeo and Bazel write it for `docker load`.

`manifest.json` lists the images: a configuration and its layers by name, lowest first. It holds no digests: the configuration is
held against the one in its name, if that is one, and it vouches for the layers by their diff_ids.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import Field

from platoon.artifacts.digests import PREFIX, sha256_bytes
from platoon.config.text import counted, few, printable, short_path
from platoon.errors import ConfigError, Problem
from platoon.images.documents import Document, ImageConfig, Items, fits, parse
from platoon.images.saved_files import LayerBlob, SavedFiles

MANIFEST = "manifest.json"
# `<hex>.json`, `sha256:<hex>` or `blobs/sha256/<hex>`, by who wrote it.
_NAMED_BY_DIGEST = re.compile(r"(?:.*/|sha256:)?([0-9a-f]{64})(?:\.json)?")


class _Listed(Document):
    config: str = Field(alias="Config")
    names: Items[str] | None = Field(None, alias="RepoTags")
    layers: Items[str] = Field(alias="Layers")

    def __str__(self) -> str:
        return short_path(" ".join(self.names or [self.config]))


@dataclass(frozen=True)
class _Image:
    listed: _Listed
    config: ImageConfig


def archive_layers(files: SavedFiles, wanted: str, name: str | None = None) -> tuple[LayerBlob, ...]:
    """The layers of the one image that fits, lowest first.

    wanted: `os/architecture[/variant]`. name: one of the image's names, such as `alpine:3.20`, or the name of its configuration.
    Raises ConfigError, naming what there is, where none or more than one fits.
    """
    listed_images = parse(Items[_Listed], files.read(MANIFEST), files.shown(MANIFEST))
    images = [
        _Image(listed, _config(files, listed.config))
        for listed in listed_images
        if name is None or name in (listed.config, *(listed.names or ()))
    ]
    fitting = [image for image in images if fits(image.config, wanted)]
    if len(fitting) != 1:
        platforms = {str(image.listed): f" ({short_path(str(image.config))})" for image in images}
        there = few([f"{listed}{platforms.get(str(listed), '')}" for listed in listed_images])
        called = f" called {short_path(name)}" if name else ""
        number = counted(len(fitting), "image") if fitting else "no image"
        rule = f"holds {number}{called} for {printable(wanted)}; there are: {there or 'none'}"
        advice = "choose with --platform and --image, by what is listed" if there else ""
        raise ConfigError(Problem(rule, file=files.shown(), advice=advice))
    image = fitting[0]
    names, diff_ids = image.listed.layers, image.config.rootfs.diff_ids
    if len(diff_ids) != len(names):
        rule = f"{image.listed} has {len(names)} layers, and its configuration {len(diff_ids)} diff_ids"
        raise ConfigError(Problem(rule, file=files.shown(MANIFEST)))
    return tuple(LayerBlob(*files.place(layer), None, None, None, diff_id) for layer, diff_id in zip(names, diff_ids, strict=True))


def _config(files: SavedFiles, name: str) -> ImageConfig:
    data = files.read(name)
    named = _NAMED_BY_DIGEST.fullmatch(name)
    if named and (found := sha256_bytes(data)) != PREFIX + named[1]:
        raise ConfigError(Problem(f"has the digest {found}, which is not its name", file=files.shown(name)))
    return parse(ImageConfig, data, files.shown(name))
