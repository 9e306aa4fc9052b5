"""The files of a build context, as a plan needs them: which there are, their digests and their executable bits.

Links are followed where they lead to a file of the root; one that leaves it, and a link to a directory, is refused by name. What a
key holds is listed and then read by the core below the root's descriptor, a component at a time: a tree that changes meanwhile can
give an error or the digests of other files of the root, never those of a file outside it. The ignore file decides later, in Python:
its files are in the key all the same, and its rules are the engine's, not those of the content hash.
"""

from __future__ import annotations

import os
import posixpath
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from platoon.artifacts.digests import DataError, UnsupportedError, hex_of, tree_files, tree_names
from platoon.artifacts.reading import read_part
from platoon.host.trees import kind_below
from platoon.images.dockerfile.errors import DockerfileError

FILE_LIMIT = 200_000
DEPTH_LIMIT = 100


class Context:
    """A context directory below `root`, which no link may leave.

    executable: whether a file counts as a program; its mode says so when unset. empty: directories that a plan found named and not
    there, which whoever builds makes.
    """

    def __init__(self, directory: Path, root: Path | None = None, executable: Callable[[Path], bool] | None = None) -> None:
        self.directory = directory
        self.root = Path(os.path.realpath(root or directory))
        self._executable = executable
        self.empty: set[str] = set()
        self._kinds: dict[str, str | None] = {}

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Every file of the context, relative and POSIX, in order of code points."""
        with self._reading():
            names = tree_names(self.root, self._below)
        if len(names) > FILE_LIMIT:
            raise DockerfileError(f"its context has more than {FILE_LIMIT} files")
        for path, kind in names:
            if kind == "outside":
                raise self._escape(path)
            if kind == "directory":
                raise DockerfileError(f"{path} is a link to a directory", file=str(self.directory.name))
            if path.count("/") > DEPTH_LIMIT:
                raise DockerfileError(f"its context is nested deeper than {DEPTH_LIMIT} directories")
        return tuple(path for path, kind in names if kind == "file")

    def kind(self, path: str) -> str | None:
        """`file`, `directory`, or None for what is not there. Raises DockerfileError for a link that leaves the root."""
        if path not in self._kinds:
            self._kinds[path] = kind_below(self.root, self.directory / path)
        if (kind := self._kinds[path]) == "outside":
            raise self._escape(path)
        return kind

    def below(self, path: str) -> tuple[str, ...]:
        """The files a source takes: itself, or everything below a directory."""
        if path in ("", "."):
            return self.files
        if self.kind(path) == "file":
            return (path,)
        # Between "/" and "0", which follows it, lies all that begins with the path and a slash.
        return self.files[bisect_left(self.files, f"{path}/") : bisect_left(self.files, f"{path}0")]

    def entries(self, paths: Iterable[str]) -> list[list[str | bool]]:
        """`[path, sha256, executable]` of files, in order, as a build key holds them."""
        names = sorted(set(paths))
        with self._reading():
            rows = tree_files(self.root, [(self._below / name).as_posix() for name in names])
        return [
            [name, hex_of(row.digest), row.is_executable if self._executable is None else self._executable(self.directory / name)]
            for name, row in zip(names, rows, strict=True)
        ]

    def head(self, path: str, size_bytes: int) -> bytes:
        """The first bytes of a file."""
        return read_part(self.directory / path, size_bytes)

    @cached_property
    def _below(self) -> Path:
        """The context, relative to the root."""
        return Path(os.path.realpath(self.directory)).relative_to(self.root)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (DataError, UnsupportedError, UnicodeEncodeError) as error:
            raise DockerfileError(f"its context cannot be read: {str(error).removeprefix(f'{self.root}/')}") from None
        except OSError as error:
            raise DockerfileError(f"its context cannot be read: {error.strerror}") from None

    def _escape(self, path: str) -> DockerfileError:
        return DockerfileError(f"{path} is a link out of the task", file=str(self.directory.name))


def normalised(source: str) -> str:
    """A source relative to the context without `.`, `..` and repeated slashes, a trailing slash kept.

    A `..` that would leave the context is left out, as in a build: its root is the root of all paths.
    """
    path = posixpath.normpath(f"/{source.lstrip('/')}")[1:] or "."
    return f"{path}/" if source.endswith("/") else path


def leads_out(source: str) -> bool:
    """Whether a source as written has a `..` that would leave the context."""
    return posixpath.normpath(source.lstrip("/")).split("/", 1)[0] == ".."
