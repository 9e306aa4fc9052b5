"""COPY and ADD: what they take, from where, and whether a session can do it instead of the build."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from platoon.config.text import clip
from platoon.images.dockerfile.context import Context, leads_out, normalised
from platoon.images.dockerfile.parse import Instruction, heredoc_opening, json_words, operands, split_flags
from platoon.images.dockerfile.scope import Scope
from platoon.images.dockerfile.wildcards import files_matching
from platoon.images.dockerfile.words import BadWordError, deferred_text, unquote

DEFERRABLE_FLAGS = frozenset({"chown", "link"})
WILDCARDS = frozenset("*?[")
# Of one Dockerfile, each of which is held against all files; with more the whole context is taken to be copied.
PATTERN_LIMIT = 64
_ARCHIVES = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")
_TAR_MAGIC = (257, b"ustar")
_GIT = re.compile(r"git://|ssh://|[A-Za-z0-9._-]+@[A-Za-z0-9._-]+:|https?://[^?#]*\.git/?(?:[?#]|$)")
_URL = re.compile(r"https?://")


@dataclass(frozen=True)
class Copy:
    """A COPY or ADD. sources, destination: as written without quotes, `$` kept. raw: sources with their quotes."""

    keyword: str
    flags: dict[str, str]
    raw: tuple[str, ...]
    json: bool
    destination: str
    heredocs: int

    @property
    def from_stage(self) -> str | None:
        return self.flags.get("from")


def read_copy(instruction: Instruction, escape: str) -> Copy:
    """The parts of a COPY or ADD. Raises BadWordError for wrong options and for fewer than two operands."""
    flags, rest = split_flags(instruction)
    keyword = instruction.keyword
    words = operands(rest)
    if len(words) < 2:
        raise BadWordError(f"{keyword} needs a source and a destination")
    is_json = json_words(rest) is not None
    if heredoc_opening(words[-1]) is not None:
        raise BadWordError(f"{keyword} takes no here-document as its destination")
    destination = words[-1] if is_json else deferred_text(words[-1], escape)
    return Copy(keyword, flags, tuple(words[:-1]), is_json, destination, len(instruction.heredocs))


def remote_kind(source: str) -> str | None:
    """`git` or `url` for a source that is fetched, None for a path of the context; told apart after expansion."""
    if _GIT.match(source):
        return "git"
    return "url" if _URL.match(source) else None


@dataclass
class Sources:
    """What the COPYs and ADDs of a build name in its context. paths: files and directories, "." for all. patterns: with wildcards.

    covers_all: the build key counts the whole context. is_known: False when a source depends on what no plan knows.
    """

    paths: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    covers_all: bool = False
    is_known: bool = True

    def files(self, context: Context) -> tuple[str, ...]:
        """The files that are taken, all that may be where that is not known, in order."""
        if "." in self.paths or not self.is_known or len(self.patterns) > PATTERN_LIMIT:
            return context.files
        found = {file for path in self.paths for file in context.below(path)}
        found.update(file for pattern in self.patterns for file in files_matching(pattern, context.files))
        return tuple(sorted(found))


def add_sources(copy: Copy, scope: Scope, escape: str, context: Context, sources: Sources) -> None:
    """Adds what a COPY or ADD of the build names, and to `context.empty`.

    Raises BadWordError for a source that is missing or cannot be copied.
    """
    if copy.from_stage is not None:
        return
    for raw in copy.raw:
        if not copy.json and heredoc_opening(raw) is not None:
            continue
        source = scope.expand(raw, escape)
        if source is None:
            sources.covers_all, sources.is_known = True, False
            continue
        has_wildcard = bool(WILDCARDS & set(source))
        sources.covers_all |= has_wildcard
        if (kind := remote_kind(source)) is not None:
            if copy.keyword == "COPY":
                raise BadWordError(f"COPY takes files of the context, got a {kind} source")
        elif has_wildcard:
            sources.patterns.add(_normalised(source))
        elif (path := _directory_that_is_not_kept(source, context)) is not None:
            context.empty.add(path)
        else:
            path = _path(source, context)
            sources.paths.add(path)
            sources.covers_all |= path == "."


def deferred_step(copy: Copy, escape: str, context: Context) -> tuple[str, ...]:
    """The step that a session applies. Raises BadWordError with the reason why the build must do it."""
    if other := sorted(set(copy.flags) - DEFERRABLE_FLAGS):
        raise BadWordError(f"{copy.keyword} --{other[0]} is done by the build")
    if copy.heredocs:
        raise BadWordError(f"{copy.keyword} of a here-document is done by the build")
    if len(copy.raw) > 1 and not copy.destination.endswith("/"):
        raise BadWordError(f"{copy.keyword} of several sources needs a destination that ends in /")
    sources = []
    for raw in copy.raw:
        if "$" in raw or WILDCARDS & set(raw):
            raise BadWordError(f"{copy.keyword} {clip(raw)}: variables and wildcards are expanded by the build")
        source = raw if copy.json else unquote(raw, escape)
        if remote_kind(source) is not None:
            raise BadWordError(f"{copy.keyword} of a remote source is done by the build")
        if leads_out(source):
            raise BadWordError(f"{copy.keyword} {clip(source)}: the build leaves out what leads out of the context")
        path = _path(source, context)
        if copy.keyword == "ADD" and context.kind(path) == "file" and _is_archive(path, context):
            raise BadWordError(f"ADD {path} unpacks an archive, which the build does")
        sources.append(f"{path}/" if source.endswith("/") else path)
    owner = (f"--chown={deferred_text(copy.flags['chown'], escape)}",) if "chown" in copy.flags else ()
    return ("COPY", *owner, *sources, copy.destination)


def step_sources(step: tuple[str, ...]) -> tuple[str, ...]:
    """The sources of a deferred COPY step, without their trailing slashes."""
    words = step[2:-1] if step[1].startswith("--chown=") else step[1:-1]
    return tuple(word.rstrip("/") or "." for word in words)


def _directory_that_is_not_kept(source: str, context: Context) -> str | None:
    """The path of a source that is written as a directory and is not there: it was empty, for a task keeps files alone."""
    path = normalised(source)
    if not path.endswith("/") or path == "./" or leads_out(source):
        return None
    path = path.rstrip("/")
    return None if context.kind(path) is not None else path


def _normalised(source: str) -> str:
    return normalised(source).rstrip("/")


def _path(source: str, context: Context) -> str:
    path = _normalised(source)
    if path != "." and context.kind(path) is None:
        looked_for = f", where a build looks for {clip(path)}" if leads_out(source) else ""
        raise BadWordError(f"{clip(source)} is not in the context{looked_for}")
    return path


def _is_archive(path: str, context: Context) -> bool:
    offset, magic = _TAR_MAGIC
    head = context.head(path, offset + len(magic))
    return head.startswith(_ARCHIVES) or head[offset:] == magic
