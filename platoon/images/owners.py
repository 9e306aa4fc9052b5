"""Who owns what in an image: its owner manifest, whatever the image comes as.

A manifest follows the rule named by `OWNERS_RULE` (`docs/reference/owners.md`): each path that is not root's, in the form that a
rootless sandbox applies. An image that gives nothing to others has a manifest of one line, which is a record too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from platoon import _native
from platoon._native import OWNERS_RULE
from platoon.artifacts.digests import DataError, HashedFile, UnsupportedError, file_digest, sha256_bytes
from platoon.config.text import printable
from platoon.errors import ConfigError, Problem
from platoon.images.oci_layout import LayerBlob, layout_layers

__all__ = ["OWNERS_ERRORS", "OWNERS_RULE", "OwnerManifest", "layer_manifest", "owners_of"]

SQUASHFS_MAGIC = b"hsqs"
SIF_MAGIC, SIF_MAGIC_AT = b"SIF_MAGIC", 32
SQUASHFS_LAYER = "application/vnd.sylabs.image.layer.v1.squashfs"

# What reading images raises, beside ConfigError for a layout that cannot be used.
OWNERS_ERRORS = (OSError, DataError, UnsupportedError)


@dataclass(frozen=True)
class OwnerManifest:
    """data: the canonical bytes. count: paths in it. unrepresentable: paths left out since no line can hold their names."""

    data: bytes
    count: int
    unrepresentable: int

    @property
    def digest(self) -> str:
        """`sha256:<hex>` of the bytes."""
        return sha256_bytes(self.data)


def owners_of(paths: Sequence[Path], *, platform: str | None = None, name: str | None = None) -> OwnerManifest:
    """The manifest of one image: a squashfs, a SIF or OCI-SIF, an OCI layout directory, or the files of its layers, lowest first.

    platform (`os/architecture[/variant]`, this machine's without it) and name (a reference name or manifest digest) choose from a
    layout; files have neither. Of a layout every digest is verified. Raises OWNERS_ERRORS and ConfigError.
    """
    alone = next((path for path in paths if path.is_dir() or _is_image(path)), None)
    if alone is None:
        return layer_manifest(paths)
    if len(paths) > 1:
        what = "an OCI layout" if alone.is_dir() else "not the tar of a layer"
        rule = f"is an image by itself ({what}), and stands beside other arguments"
        raise ConfigError(Problem(rule, file=printable(str(alone)), advice="name one image, or the files of its layers"))
    if not alone.is_dir():
        return OwnerManifest(*_native.image_owners(alone))
    layers = layout_layers(alone, platform, name)
    if any(layer.media_type == SQUASHFS_LAYER for layer in layers):
        return _squashfs_manifest(layers)
    return layer_manifest(layers)


def _is_image(path: Path) -> bool:
    """True for a squashfs and for a SIF, by their first bytes."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(SIF_MAGIC_AT + len(SIF_MAGIC))
    return start.startswith(SQUASHFS_MAGIC) or start[SIF_MAGIC_AT:] == SIF_MAGIC


def _squashfs_manifest(layers: Sequence[LayerBlob]) -> OwnerManifest:
    """The manifest of a layout's squashfs, which says all that there is to say only where it is the one layer."""
    first = layers[0]
    shown = printable(str(first.path))
    if len(layers) > 1:
        raise ConfigError(Problem(f"is a squashfs among {len(layers)} layers, and only one alone is read here", file=shown))
    if (found := file_digest(first.path)) != HashedFile(str(first.path), first.digest, first.size_bytes):
        raise DataError(f"{shown}: {found.size_bytes} bytes of digest {found.digest}, where {first.digest} is expected")
    return OwnerManifest(*_native.image_owners(first.path))


def layer_manifest(layers: Sequence[LayerBlob | Path]) -> OwnerManifest:
    """The manifest of layers, lowest first; of a LayerBlob all is verified that it says. Raises OWNERS_ERRORS."""
    given = [
        (layer.path, layer.media_type, layer.size_bytes, layer.digest, layer.diff_id)
        if isinstance(layer, LayerBlob)
        else (layer, None, None, None, None)
        for layer in layers
    ]
    return OwnerManifest(*_native.layer_owners(given))
