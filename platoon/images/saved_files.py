"""The files of an image that was saved, by their names in it: below a directory, or in an uncompressed tar, which is not unpacked.

Names are relative and stay within: one that is absolute or climbs is refused. Documents are read, layers are only located.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from platoon import _native
from platoon.artifacts.reading import read_part, read_regular
from platoon.config.text import printable
from platoon.errors import ConfigError, Problem

# What registries take; a document that is larger is none.
DOCUMENT_BYTES = 4 << 20
NO_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.EINVAL})
# A symbolic link of an archive may lead to another one.
LINK_LIMIT = 8


@dataclass(frozen=True)
class Inside:
    """A file within an uncompressed tar."""

    name: str
    offset: int
    size_bytes: int


@dataclass(frozen=True)
class LayerBlob:
    """A layer and what must hold of it; None where its image does not say.

    path, inside: the file, or the tar and where in it. digest: of the layer as stored. diff_id: of the tar in it.
    """

    path: Path
    inside: Inside | None
    media_type: str | None
    size_bytes: int | None
    digest: str | None
    diff_id: str | None


class SavedFiles(Protocol):
    def __contains__(self, name: str) -> bool: ...

    def shown(self, name: str = "") -> str:
        """A file, or all of it, for a person."""

    def read(self, name: str) -> bytes:
        """A document. Raises ConfigError for one that is missing, too large or not readable."""

    def place(self, name: str) -> tuple[Path, Inside | None]:
        """Where a layer lies. Raises ConfigError for a name that is none here."""


@dataclass(frozen=True)
class DirectoryFiles:
    """Files below a directory. A link may lead anywhere: what is read is held against a digest."""

    directory: Path

    def __contains__(self, name: str) -> bool:
        return self._path(name).is_file()

    def shown(self, name: str = "") -> str:
        return printable(str(self.directory / name))

    def read(self, name: str) -> bytes:
        try:
            return read_regular(self._path(name), DOCUMENT_BYTES)
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise _too_large(self.shown(name)) from None
            if error.errno in NO_FILE:
                raise _missing(self.shown(name)) from None
            raise ConfigError(Problem(f"cannot be read: {error.strerror}", file=self.shown(name))) from error

    def place(self, name: str) -> tuple[Path, Inside | None]:
        return self._path(name), None

    def _path(self, name: str) -> Path:
        return self.directory / _within(name, self.shown())


@dataclass(frozen=True)
class ArchiveFiles:
    """Files of a tar. files: by name, in it or a symbolic link's target from its directory."""

    path: Path
    files: Mapping[str, Inside | str]

    @staticmethod
    def of(path: Path) -> ArchiveFiles | None:
        """The archive of an image; None for another file. Raises OSError, DataError and UnsupportedError."""
        found = _native.saved_files(path)
        if found is None:
            return None
        # Of two files of one name the later counts, as for whoever unpacks it.
        return ArchiveFiles(
            path, {name: Inside(name, offset, size) if target is None else target for name, target, offset, size in found}
        )

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def shown(self, name: str = "") -> str:
        return printable(str(self.path / name))

    def read(self, name: str) -> bytes:
        found = self._find(name)
        if found.size_bytes > DOCUMENT_BYTES:
            raise _too_large(self.shown(name))
        return read_part(self.path, found.size_bytes, found.offset)

    def place(self, name: str) -> tuple[Path, Inside | None]:
        return self.path, self._find(name)

    def _find(self, name: str) -> Inside:
        found: Inside | str | None = self.files.get(_within(name, self.shown()))
        followed, links = name, 0
        while isinstance(found, str):
            followed, links = _joined(followed, found, self.shown(name)), links + 1
            if links > LINK_LIMIT:
                raise ConfigError(Problem(f"is a link that passes more than {LINK_LIMIT} links", file=self.shown(name)))
            found = self.files.get(followed)
        if found is None:
            raise _missing(self.shown(name))
        return found


def _within(name: str, shown: str) -> str:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        raise ConfigError(Problem(f"names {printable(name)[:80] or 'nothing'}, which is no file in it", file=shown))
    return "/".join(parts)


def _joined(link: str, target: str, shown: str) -> str:
    """Where a link leads; it must stay within."""
    parts = list(PurePosixPath(link).parent.parts)
    for part in PurePosixPath(target).parts:
        if part == "/" or (part == ".." and not parts):
            raise ConfigError(Problem("is a link that leads out of its archive", file=shown))
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def _missing(shown: str) -> ConfigError:
    return ConfigError(Problem("is missing, or no file", file=shown))


def _too_large(shown: str) -> ConfigError:
    return ConfigError(Problem(f"is larger than {DOCUMENT_BYTES} bytes, and so no document of an image", file=shown))
