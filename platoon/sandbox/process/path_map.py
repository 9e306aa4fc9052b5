"""How paths of a sandbox become paths of the host and back, in commands and in output.

A command that says `/app/data` means the sandbox's own file: the roots `/app /tests /logs /solution /tmp`, the working directory
and the targets of mounts are rewritten to lie below the sandbox's `fs/`. A root counts only where a path can begin (not after a
character of a path, a variable or a closing bracket) and where it ends as a path component. Contents of files are not rewritten:
scripts use `$PLATOON_SANDBOX_ROOT`. Output says the sandbox's paths, as it would in a container, and so holds no random directory.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

ROOTS = ("/app", "/tests", "/logs", "/solution", "/tmp")  # noqa: S108  because these are the sandbox's, not the host's
HOME = "/tmp/home"  # noqa: S108  because it is below a root of the sandbox

_BEFORE = r"(?<![A-Za-z0-9_./~})\]*?%@+$-])"
_AFTER = r"(?![A-Za-z0-9_.~-])"


class PathMap:
    """Rewriting for one sandbox. fs: its absolute root on the host. roots: paths beside `ROOTS` that map below it."""

    def __init__(self, fs: Path, roots: Iterable[str] = ()) -> None:
        self.fs = fs
        self.roots = tuple(sorted({*ROOTS, *(normal(root) for root in roots)} - {"/"}, key=len, reverse=True))
        self._own_bytes = str(fs).encode()

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        own = re.escape(str(self.fs)) + _AFTER
        alternatives = "|".join(re.escape(root) for root in self.roots)
        return re.compile(rf"(?P<own>{own})|{_BEFORE}(?P<root>{alternatives}){_AFTER}")

    @cached_property
    def _hidden(self) -> re.Pattern[bytes]:
        """What output lacks: the directory before a path below it; where it stands alone, all but its first slash."""
        return re.compile(re.escape(self._own_bytes) + b"(?=/)|(?<=/)" + re.escape(self._own_bytes[1:]))

    def command(self, text: str) -> str:
        """A command line, argument or environment value with the sandbox's paths made the host's."""
        if "/" not in text:
            return text
        return self._pattern.sub(lambda match: match.group() if match.group("own") else f"{self.fs}{match.group('root')}", text)

    def output(self, data: bytes) -> bytes:
        """Output with the host's directory of the sandbox cut off."""
        return data if self._own_bytes not in data else self._hidden.sub(b"", data)

    def edited(self, data: bytes, start: int, end: int, new: bytes) -> bytes:
        """`data` with `new` in place of what `output` shows of it from `start` to `end`; other places keep what is not shown."""
        starts, ends, hidden = start, end, 0
        for match in self._hidden.finditer(data):
            # It goes with the slash that is shown: the one after it, or the one before.
            seen, cut = match.start() - hidden - (match.group()[:1] != b"/"), len(match.group())
            starts += cut if seen < start else 0
            ends += cut if seen < end else 0
            hidden += cut
        return data[:starts] + new + data[ends:]

    def host(self, path: str, workdir: str) -> Path:
        """The host path of a path given to an operation; a relative one starts at `workdir`, `/` is the sandbox's `/tmp`."""
        full = normal(posixpath.join(workdir, path))
        if full == "/":
            return self.fs / "tmp"
        if self._is_own(full):
            return Path(full)
        if any(full == root or full.startswith(root + "/") for root in self.roots):
            return Path(f"{self.fs}{full}")
        return Path(full)

    def is_root(self, path: str, workdir: str) -> bool:
        """Whether a path given to an operation is the sandbox's `/`."""
        return normal(posixpath.join(workdir, path)) == "/"

    def _is_own(self, path: str) -> bool:
        return path == str(self.fs) or path.startswith(f"{self.fs}/")


def normal(path: str) -> str:
    """An absolute path without `.`, `..` and doubled slashes."""
    return posixpath.normpath("/" + path.lstrip("/"))
