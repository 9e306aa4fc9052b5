"""Who owns what in an image: its owner manifest, whatever the image comes as.

A manifest follows the rule named by `OWNERS_RULE` (`docs/reference/owners.md`): each path that is not root's, in the form that a
rootless sandbox applies. An image that gives nothing to others has a manifest of one line, which is a record too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from platoon import _native, exits
from platoon._native import OWNERS_RULE
from platoon.artifacts.digests import DataError, UnsupportedError, sha256_bytes
from platoon.artifacts.reading import read_part
from platoon.config.text import printable, short_path
from platoon.errors import ConfigError, Problem
from platoon.images.docker_archive import MANIFEST, archive_layers
from platoon.images.documents import this_platform
from platoon.images.oci_layout import MARKER, layout_layers
from platoon.images.saved_files import ArchiveFiles, DirectoryFiles, LayerBlob, SavedFiles

__all__ = ["OWNERS_ERRORS", "OWNERS_RULE", "NothingToChooseError", "OwnerManifest", "image_layers", "layer_manifest", "owners_of"]

# The second is big-endian, which is refused as what it is.
SQUASHFS_MAGICS = (b"hsqs", b"sqsh")
SIF_MAGIC, SIF_MAGIC_AT = b"SIF_MAGIC", 32
# Of an error of the core about a tar of which nothing could be read.
NOTHING_OF_A_TAR = ": tar at byte 0: "
SQUASHFS_LAYER = "application/vnd.sylabs.image.layer.v1.squashfs"

# What reading images raises, beside ConfigError for a layout that cannot be used.
OWNERS_ERRORS = (OSError, DataError, UnsupportedError)


class NothingToChooseError(ConfigError):
    """A platform or a name was given for what is no saved image."""

    exit_code = exits.USAGE


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
    """The manifest of one image: a squashfs, a SIF or OCI-SIF, a saved image, or the files of its layers, lowest first.

    A saved image is an OCI layout or what `docker save` makes, as a directory or an uncompressed tar; all its digests are verified.
    platform (`os/architecture[/variant]`, this machine's without it) and name (`image_layers`) choose from it; other files have
    neither. Raises OWNERS_ERRORS and ConfigError.
    """
    images = [(path, _image(path)) for path in paths]
    alone, found = next((pair for pair in images if pair[1] is not None), (paths[0], None))
    if (platform or name) and (found is None or isinstance(found, str)):
        rule = f"is {found or 'a layer'} and no saved image, which --platform and --image choose from"
        raise NothingToChooseError(Problem(rule, file=short_path(str(alone)), advice="leave them out"))
    if found is None:
        return layer_manifest(paths)
    if len(paths) > 1:
        rule = f"is an image by itself ({found if isinstance(found, str) else 'a saved one'}), and stands beside other arguments"
        raise ConfigError(Problem(rule, file=printable(str(alone)), advice="name one image, or the files of its layers"))
    if isinstance(found, str):
        return OwnerManifest(*_native.image_owners(alone))
    layers = image_layers(found, platform, name)
    if any(layer.media_type == SQUASHFS_LAYER for layer in layers):
        return _squashfs_manifest(layers)
    return layer_manifest(layers)


def image_layers(files: SavedFiles, platform: str | None = None, name: str | None = None) -> tuple[LayerBlob, ...]:
    """The layers of the one image that fits, lowest first.

    name: a reference name or the digest of a manifest in a layout, a tag such as `alpine:3.20` in what `docker save` made.
    Raises ConfigError for what is no saved image and where not one image fits.
    """
    wanted = platform or this_platform()
    if MARKER in files:
        return layout_layers(files, wanted, name)
    if MANIFEST in files:
        return archive_layers(files, wanted, name)
    rule = f"is no saved image: it holds neither {MARKER} (OCI) nor {MANIFEST} (docker save)"
    raise ConfigError(Problem(rule, file=files.shown()))


def _image(path: Path) -> SavedFiles | str | None:
    """What is an image by itself, by its first bytes or names: a saved one, or the name of a format; None for a layer."""
    if path.is_dir():
        return DirectoryFiles(path)
    start = read_part(path, SIF_MAGIC_AT + len(SIF_MAGIC))
    if start.startswith(SQUASHFS_MAGICS):
        return "a squashfs"
    if start[SIF_MAGIC_AT:] == SIF_MAGIC:
        return "a SIF"
    try:
        return ArchiveFiles.of(path)
    except DataError as error:
        shown, begun, _ = str(error).partition(NOTHING_OF_A_TAR)
        if not begun:
            raise
        # A file that a person named may be anything: nobody said that it is a tar.
        rule = "is neither a squashfs, a SIF, a saved image nor a tar"
        raise ConfigError(
            Problem(rule, file=printable(shown), advice="name an image, or the layers of one, lowest first")
        ) from error


def _squashfs_manifest(layers: Sequence[LayerBlob]) -> OwnerManifest:
    """The manifest of a layout's squashfs, which says all that there is to say only where it is the one layer."""
    first = layers[0]
    shown = printable(str(first.path))
    if len(layers) > 1:
        raise ConfigError(Problem(f"is a squashfs among {len(layers)} layers, and only one alone is read here", file=shown))
    if first.inside is not None:
        raise ConfigError(Problem("is a squashfs in an archive, and not read there", file=shown, advice="unpack the archive"))
    return OwnerManifest(*_native.image_owners(first.path, first.size_bytes, first.digest))


def layer_manifest(layers: Sequence[LayerBlob | Path]) -> OwnerManifest:
    """The manifest of layers, lowest first; of a LayerBlob all is verified that it says. Raises OWNERS_ERRORS."""
    given = [
        (_place(layer), layer.media_type, layer.size_bytes, layer.digest, layer.diff_id)
        if isinstance(layer, LayerBlob)
        else (layer, None, None, None, None)
        for layer in layers
    ]
    return OwnerManifest(*_native.layer_owners(given))


def _place(layer: LayerBlob) -> Path | tuple[Path, str, int, int]:
    inside = layer.inside
    return layer.path if inside is None else (layer.path, inside.name, inside.offset, inside.size_bytes)
