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
from platoon.artifacts.digests import DataError, UnsupportedError, sha256_bytes
from platoon.errors import ConfigError, Problem
from platoon.images.oci_layout import LayerBlob, layout_layers

__all__ = ["OWNERS_ERRORS", "OWNERS_RULE", "OwnerManifest", "layer_manifest", "owners_of"]

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
    """The manifest of one image: an OCI layout directory, or the files of its layers, lowest first.

    platform (`os/architecture[/variant]`, this machine's without it) and name (a reference name or manifest digest) choose from a
    layout; files have neither. Of a layout every digest is verified. Raises OWNERS_ERRORS and ConfigError.
    """
    folders = [path for path in paths if path.is_dir()]
    if not folders:
        return layer_manifest(paths)
    if len(paths) > 1:
        rule = "is a directory beside other arguments: an OCI layout is an image by itself"
        raise ConfigError(Problem(rule, file=str(folders[0]), advice="name one layout, or the files of layers"))
    return layer_manifest(layout_layers(paths[0], platform, name))


def layer_manifest(layers: Sequence[LayerBlob | Path]) -> OwnerManifest:
    """The manifest of layers, lowest first; of a LayerBlob all is verified that it says. Raises OWNERS_ERRORS."""
    given = [
        (layer.path, layer.media_type, layer.size_bytes, layer.digest, layer.diff_id)
        if isinstance(layer, LayerBlob)
        else (layer, None, None, None, None)
        for layer in layers
    ]
    return OwnerManifest(*_native.layer_owners(given))
