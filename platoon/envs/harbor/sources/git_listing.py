"""Lists the trees of a commit while git walks them: nothing is held but what the caller keeps, and no walk is without end.

A tree may hold the same tree many times, and that one another: a few objects that anybody can make are paths without number. So
every listing has bounds on its entries, its bytes and the length of a path, where git is ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from platoon.envs.harbor.sources.git_command import Git
from platoon.errors import ConfigError, Problem

ENTRY_LIMIT = 2_000_000
LISTING_LIMIT_BYTES = 1 << 29
PATH_LIMIT_BYTES = 1 << 14
UNLISTED = "its files could not be listed (--repair of platoon harbor fetch makes its store anew)"
DIRECTORY = "040000"
SUBMODULE = "160000"
PROGRAM = "100755"


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One file of a commit. mode: git's six octal digits. path: from the root of the repository, surrogates where no UTF-8."""

    mode: str
    oid: str
    path: str

    @classmethod
    def of(cls, record: bytes) -> TreeEntry:
        """From what `git ls-tree -z` says of it."""
        head, _, name = record.partition(b"\t")
        mode, _, oid = head.decode().split(" ")
        return cls(mode, oid, name.decode("utf-8", "surrogateescape"))


def walk(git: Git, commit: str, visit: Callable[[bytes], None], *flags: str, paths: Sequence[str] = ()) -> None:
    """Gives `visit` each record of `git ls-tree` with `flags` in its order; of the whole commit, or of what `paths` name.

    Raises ConfigError at a bound, GitError, and what `visit` raises.
    """
    records = _Records(git.url, commit, visit)
    arguments = ["ls-tree", "-z", "--full-tree", *flags, commit, *(["--", *paths] if paths else [])]
    git.stream(*arguments, take=records.take, what=UNLISTED)


@dataclass
class _Records:
    url: str
    commit: str
    visit: Callable[[bytes], None]
    entries: int = 0
    size_bytes: int = 0
    rest: bytes = b""

    def take(self, piece: bytes) -> None:
        records = (self.rest + piece).split(b"\0")
        self.rest = records.pop()
        self.entries += len(records)
        self.size_bytes += len(piece)
        if self.entries > ENTRY_LIMIT:
            raise self._fault(f"holds more than {ENTRY_LIMIT} files and directories")
        if self.size_bytes > LISTING_LIMIT_BYTES:
            raise self._fault(f"has paths of more than {LISTING_LIMIT_BYTES} bytes together")
        if len(self.rest) > PATH_LIMIT_BYTES:
            raise self._fault(f"has a path of more than {PATH_LIMIT_BYTES} bytes")
        for record in records:
            self.visit(record)

    def _fault(self, rule: str) -> ConfigError:
        return ConfigError(Problem(rule, key=self.commit, file=self.url, advice="a dataset has a repository of its own"))
