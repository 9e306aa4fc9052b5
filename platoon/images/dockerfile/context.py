"""The files of a build context, as a plan needs them: which there are, their digests and their executable bits.

Links are followed where they lead to a file of the root; one that leaves it, and a link to a directory, is refused by name.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path, PurePosixPath

from platoon.artifacts.digests import DataError, hex_of, tree_files
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

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Every file of the context, relative and POSIX, in order of code points."""
        found: list[str] = []
        self._walk(self.directory, "", found)
        return tuple(sorted(found))

    def kind(self, path: str) -> str | None:
        """`file`, `directory`, or None for what is not there. Raises DockerfileError for a link that leaves the root."""
        kind = kind_below(self.root, self.directory / path)
        if kind == "outside":
            raise DockerfileError(f"{path} is a link out of the task", file=str(self.directory.name))
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
        # Read below the root and nowhere else, whatever becomes of a link meanwhile.
        below = Path(os.path.realpath(self.directory)).relative_to(self.root)
        try:
            rows = tree_files(self.root, [(below / name).as_posix() for name in names])
        except UnicodeEncodeError:
            raise DockerfileError("its context has a name that is not UTF-8") from None
        except DataError as error:
            raise DockerfileError(f"its context cannot be read: {error}") from None
        return [
            [name, hex_of(row.digest), row.is_executable if self._executable is None else self._executable(self.directory / name)]
            for name, row in zip(names, rows, strict=True)
        ]

    def head(self, path: str, size_bytes: int) -> bytes:
        """The first bytes of a file."""
        with (self.directory / path).open("rb") as file:
            return file.read(size_bytes)

    def _walk(self, directory: Path, prefix: str, found: list[str]) -> None:
        if prefix.count("/") > DEPTH_LIMIT:
            raise DockerfileError(f"its context is nested deeper than {DEPTH_LIMIT} directories")
        try:
            with os.scandir(directory) as scanned:
                entries = list(scanned)
        except OSError as error:
            raise DockerfileError(f"its context cannot be read: {error.strerror}") from None
        for entry in entries:
            path = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                self._walk(Path(entry.path), f"{path}/", found)
            elif not entry.is_symlink() or self.kind(path) is not None:
                if entry.is_dir():
                    raise DockerfileError(f"{path} is a link to a directory", file=str(self.directory.name))
                found.append(path)
            if len(found) > FILE_LIMIT:
                raise DockerfileError(f"its context has more than {FILE_LIMIT} files")


def normalised(source: str) -> str | None:
    """A source relative to the context without `.` and repeated slashes, a trailing slash kept; None when it leaves the context."""
    parts: list[str] = []
    for part in PurePosixPath("/" + source).parts[1:]:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        else:
            parts.append(part)
    path = "/".join(parts) or "."
    return f"{path}/" if source.endswith("/") else path
