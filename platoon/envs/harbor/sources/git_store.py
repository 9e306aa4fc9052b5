"""One bare repository a URL in the site's cache: commits without blobs, and the blobs of what was checked out from them.

A store is used by one process of the whole site at a time (a file lock beside it). What an interrupted fetch brought stays, so the
next one goes on from there. Trees are listed without any blob; a checkout brings the blobs of its paths in one go.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from platoon.config.credentials import hide_credentials
from platoon.config.model import did_you_mean
from platoon.config.text import printable
from platoon.envs.harbor.publish import HarborCache
from platoon.envs.harbor.sources.git_command import Git, GitError
from platoon.envs.harbor.sources.git_listing import UNLISTED, TreeEntry, walk
from platoon.envs.harbor.sources.places import make_directory, staging
from platoon.envs.harbor.sources.protocol import FetchTools
from platoon.envs.harbor.sources.reference import is_commit
from platoon.errors import ConfigError, Problem
from platoon.host.locks import file_lock
from platoon.host.trees import remove_tree

LOCK_TIMEOUT_S = 4 * 3600.0
DEEPEN_BY = (50, 500, 5000)
# Its server does not hand out blobs that were left out before.
NO_FILTER_HOSTS = ("huggingface.co", "hf.co")
# From so many paths on, listing the commit costs less than looking each of them up in every directory.
LIST_WHOLE_FROM = 64
# Over the attributes of a commit, which may stand above a task and so outside its tree: files are the blobs that the tree names.
PLAIN_ATTRIBUTES = "* -text !eol !ident !filter !working-tree-encoding\n"
LFS_ATTRIBUTES = "* -text !eol !ident filter=lfs !working-tree-encoding\n"
# As git's own filter, for `git lfs pull` lists the whole commit with sizes, for which git fetches each blob that was left out.
LFS_SETTINGS = ("-c", "filter.lfs.process=git-lfs filter-process", "-c", "filter.lfs.required=true")


@dataclass(frozen=True)
class Checkout:
    """Files of a commit below `tree`."""

    tree: Path
    commit: str
    git: Git

    def tracked_by_lfs(self, paths: Sequence[str]) -> list[str]:
        """Which of the paths the commit's attributes give to git LFS, as every clone of it has them. Raises GitError."""
        arguments = ("check-attr", "--cached", "--stdin", "-z", "filter")
        told = self.git.run(*arguments, stdin=_each_ended(paths), what="its attributes could not be read")
        path, _, value = (told.split(b"\0")[start::3] for start in range(3))
        return [os.fsdecode(name) for name, found in zip(path, value, strict=False) if found == b"lfs"]

    def fill_pointers(self, paths: Sequence[str]) -> None:
        """Puts the files of LFS pointers at `paths` in their place. Raises GitError, also where git has no LFS."""
        for path in paths:
            # git would take a pointer that it wrote itself for a file that is as it should be.
            (self.tree / path).unlink()
        arguments = ("checkout", "--force", "--quiet", self.commit, "--pathspec-from-file=-", "--pathspec-file-nul")
        git = replace(self.git, extra={**self.git.extra, "GIT_LFS_SKIP_SMUDGE": "0"})
        with _attributes(git, LFS_ATTRIBUTES):
            git.run(*LFS_SETTINGS, *arguments, stdin=_each_ended(paths), what="its LFS files could not be fetched")


@dataclass(frozen=True)
class GitStore:
    """An opened store; see `open_store`."""

    git: Git
    cache: HarborCache

    @property
    def url(self) -> str:
        return self.git.url

    @property
    def kept(self) -> Git:
        """git on what the store has: what is missing, as in a damaged store, is an error and not fetched object by object."""
        return replace(self.git, extra={"GIT_NO_LAZY_FETCH": "1"})

    def commit_of(self, ref: str | None) -> str:
        """The commit that a branch, a tag or (None) the default branch is at now. Raises ConfigError, GitError."""
        if ref is not None and is_commit(ref):
            return ref
        wanted = ["HEAD"] if ref is None else [ref] if ref.startswith("refs/") else [f"refs/heads/{ref}", f"refs/tags/{ref}"]
        patterns = [*wanted, *(f"{name}^{{}}" for name in wanted if name != "HEAD")]
        found = self._refs(*patterns)
        # A tag object is followed to its commit.
        commits = {found.get(f"{name}^{{}}", found.get(name)) for name in wanted} - {None}
        if not commits:
            raise self._unknown(ref)
        if len(commits) > 1:
            raise self._fault(f"{printable(str(ref))} is a branch and a tag", f"write @refs/heads/{ref} or @refs/tags/{ref}")
        return str(commits.pop())

    def _unknown(self, ref: str | None) -> ConfigError:
        """Why nothing is called `ref`, or why there is no default branch."""
        refs = self._refs()
        if not refs:
            return self._fault("the repository is empty: it has no commit", "push one, or name another repository")
        if ref is None:
            return self._fault("names no default branch", "name a branch, tag or commit: git+<url>@<ref>")
        names = {name.removeprefix("refs/heads/").removeprefix("refs/tags/") for name in refs}
        return self._fault(f"no branch or tag is called {printable(ref)}", did_you_mean(ref, names))

    def _refs(self, *patterns: str) -> dict[str, str]:
        """The branches and tags that patterns name, all without one, to what they are at. Raises ConfigError, GitError."""
        arguments = ("origin", *patterns) if patterns else ("--refs", "origin")
        try:
            lines = self.git.run("ls-remote", *arguments, what="its branches could not be read").decode().splitlines()
        except GitError as error:
            if error.is_absent:
                raise self._fault("no repository is there, or it is not open to you") from error
            raise
        return {name: commit for commit, _, name in (line.partition("\t") for line in lines)}

    def fetch(self, commit: str) -> None:
        """Makes the store hold a commit and its trees. Raises ConfigError for no such commit and for too large a one, GitError."""
        marker = self.git.directory / "platoon" / commit
        if marker.exists():
            return
        try:
            self._fetch(commit)
        except GitError as error:
            if not error.is_absent:
                raise
            # A server that gives no commit by its id gives branches, and what they grew from.
            self._deepen(commit, error)
        kind = self.kept.run("cat-file", "-t", commit, what=f"{commit} is not to be had").decode().strip()
        if kind != "commit":
            raise self._fault(f"{commit} is a {kind}, not a commit")
        # A checkout holds all of a commit's paths in its index, whatever few of them it takes.
        walk(self.kept, commit, lambda record: None, "-r", "-t")
        make_directory(marker.parent)
        marker.touch()

    def entry(self, commit: str, path: str) -> TreeEntry | None:
        """What is at a path of a commit, a file or a directory; None where nothing is."""
        found: list[bytes] = []
        walk(self.kept, commit, found.append, paths=[path])
        return TreeEntry.of(found[0]) if found else None

    def files_called(self, name: str, commit: str, path: str) -> list[str]:
        """Paths of all files of this name, in whatever case, in directories below a directory of a commit."""
        found: list[str] = []
        end = f"/{name}".encode()

        def visit(record: bytes) -> None:
            if record.lower().endswith(end):
                found.append(TreeEntry.of(record).path)

        walk(self.kept, commit, visit, "-r", paths=[f"{path}/"] if path else [])
        return found

    def trees(self, commit: str, paths: Collection[str]) -> dict[str, str]:
        """Directories of a commit, "" being its root, to the ids of their trees; what is no directory is left out."""
        found: dict[str, str] = {}
        if "" in paths:
            found[""] = self.kept.run("rev-parse", "--verify", f"{commit}^{{tree}}", what=UNLISTED).decode().strip()
        wanted = {path.encode("utf-8", "surrogateescape") for path in paths}

        def visit(record: bytes) -> None:
            if record.partition(b"\t")[2] in wanted:
                entry = TreeEntry.of(record)
                found[entry.path] = entry.oid

        narrowed = _narrowed(paths)
        walk(self.kept, commit, visit, "-d", *(() if narrowed else ("-r",)), paths=narrowed)
        return found

    def entries(self, commit: str, paths: Collection[str], visit: Callable[[TreeEntry], None], *, mode: str = "") -> None:
        """Gives `visit` each file and directory of a commit below `paths`, with others beside where there are many paths.

        mode: of this one alone. Needs no blob.
        """
        start = mode.encode()

        def record(data: bytes) -> None:
            if data.startswith(start):
                visit(TreeEntry.of(data))

        walk(self.kept, commit, record, "-r", "-t", paths=[f"{path}/" for path in _narrowed(paths)])

    def read(self, oid: str, limit_bytes: int) -> bytes:
        """A blob, fetched now when the store lacks it. Raises ConfigError for a larger one, GitError."""
        return self.git.run("cat-file", "blob", oid, what="a file of it could not be read", limit_bytes=limit_bytes)

    @contextmanager
    def checkout(self, commit: str, paths: Sequence[str] = ("",)) -> Iterator[Checkout]:
        """The files below `paths` of a commit ("" is its root), gone after the block. Raises GitError."""
        patterns = "".join(f"{sparse_pattern(path)}\n" for path in paths).encode("utf-8", "surrogateescape")
        with staging(self.cache) as place:
            tree = place / "tree"
            make_directory(tree)
            git = self.git.at(tree, place / "index")
            git.run("sparse-checkout", "set", "--no-cone", "--stdin", stdin=patterns, what="the checkout failed")
            arguments = ("checkout", "--quiet", "--force", "--detach", commit)
            with _attributes(git, PLAIN_ATTRIBUTES):
                try:
                    git.run(*arguments, what="the checkout failed")
                except GitError as error:
                    if not error.is_absent and "promisor" not in error.stderr:
                        raise
                    # Some servers leave blobs out and do not give them later.
                    self._fetch(commit, filtered=False)
                    git.run(*arguments, what="the checkout failed")
            yield Checkout(tree, commit, git)

    def _fetch(self, what: str, *, filtered: bool = True) -> None:
        is_filtered = filtered and (urlsplit(self.url).hostname or "") not in NO_FILTER_HOSTS
        how = ("--filter=blob:none",) if is_filtered else ("--no-filter", *(() if filtered else ("--refetch",)))
        arguments = ("fetch", "--depth", "1", *how, "--no-tags", "--no-write-fetch-head", "--quiet", "origin", "--", what)
        self.git.run(*arguments, what="the commit could not be fetched")

    def _deepen(self, commit: str, first: GitError) -> None:
        # Where no repository is, that is told.
        self._refs()
        # Whole, since such a server would not give a blob by its id either.
        branches = "+refs/heads/*:refs/remotes/origin/*"
        with suppress(GitError):
            self._fetch(branches, filtered=False)
        for depth in (*DEEPEN_BY, 0):
            if self._has(commit):
                return
            how = (f"--deepen={depth}",) if depth else ("--unshallow",)
            with suppress(GitError):
                self.git.run("fetch", *how, "--no-filter", "--no-tags", "--quiet", "origin", "--", branches)
        if not self._has(commit):
            raise self._fault(f"has no commit {commit}, or it is not open to you") from first

    def _has(self, commit: str) -> bool:
        try:
            self.kept.run("cat-file", "-e", f"{commit}^{{commit}}")
        except GitError:
            return False
        return True

    def _fault(self, rule: str, advice: str = "") -> ConfigError:
        return ConfigError(Problem(rule, file=self.url, advice=advice))


@contextmanager
def open_store(url: str, tools: FetchTools, *, commit: str | None = None, shown_as: str = "") -> Iterator[GitStore]:
    """The store of a URL or of a local repository's path, alone for the block. commit: tells the repository's kind of ids.

    shown_as: how messages call the repository, the URL when empty. Raises HeldError, ConfigError, GitError.
    """
    cache = tools.cache
    name = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    shown = hide_credentials(shown_as or url)
    directory = cache.root / "git" / f"{name}.git"
    with file_lock(
        cache.root / ".locks" / f"git-{name}.lock",
        timeout_s=LOCK_TIMEOUT_S,
        what=f"fetching from {shown}",
        waiting=lambda: tools.progress(f"{shown}: waiting for another fetch from it"),
    ):
        git = Git(directory, shown, tools.environment, lambda: tools.progress(shown))
        if tools.repair:
            remove_tree(directory)
        if not (directory / "platoon").is_dir():
            _initialise(git, url, cache, "sha256" if commit is not None and len(commit) == 64 else "sha1")
        # The lock is ours, so these are left from processes that are gone.
        for stale in ("shallow.lock", "config.lock", "config.worktree.lock", "HEAD.lock", "info/sparse-checkout.lock"):
            (directory / stale).unlink(missing_ok=True)
        yield GitStore(git, cache)


def _each_ended(paths: Sequence[str]) -> bytes:
    """Paths as git reads them with `-z`."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


@contextmanager
def _attributes(git: Git, lines: str) -> Iterator[None]:
    """In the block these attributes stand over those of any commit."""
    file = git.directory / "info" / "attributes"
    file.write_text(lines)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def sparse_pattern(path: str) -> str:
    """The line of a sparse checkout that takes a directory and all below it, whatever its name looks like."""
    special = "\\*?[]!# "
    if not path:
        return "/*"
    return "/" + "".join(f"\\{character}" if character in special else character for character in path) + "/"


def _narrowed(paths: Collection[str]) -> list[str]:
    """What git is to list for `paths`, [] for the whole commit."""
    return [] if "" in paths or len(paths) >= LIST_WHOLE_FROM else sorted(paths)


def _initialise(git: Git, url: str, cache: HarborCache, object_format: str) -> None:
    make_directory(git.directory.parent)
    with staging(cache) as place:
        made = place / "store.git"
        new = Git(made, git.url, git.environment, git.tick)
        new.run("init", "--quiet", "--bare", f"--object-format={object_format}", "--template=", str(made), what="no store was made")
        new.run("remote", "add", "--", "origin", url, what="no store was made")
        (made / "platoon").mkdir()
        (made / "info").mkdir(exist_ok=True)
        if git.directory.exists():
            shutil.rmtree(git.directory)
        made.rename(git.directory)
