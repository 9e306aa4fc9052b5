"""The grammar of `dataset:`. Pure: a text becomes a typed reference, or a ValueError whose text is a rule.

    path                                      a local directory
    hf://[datasets/]org/name[@rev][#subdir]   a dataset repository of Hugging Face
    harbor://org/name[@ref]                   a package of the Harbor Hub: a dataset or a single task
    harbor://name[@version]                   a dataset of a registry file
    git+<url>[@ref][#path]                    a directory of a git repository

A reference is pinned when it can only ever mean the same bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from platoon.config.addresses import GIT_SCHEMES, check_address, check_without_credentials

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_HF_COMMIT = re.compile(r"[0-9a-f]{40}")
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):")
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*"
_PACKAGE = re.compile(rf"{_NAME}/{_NAME}")
_VERSIONED = re.compile(rf"(?P<name>{_NAME})(?:@(?P<version>[A-Za-z0-9][A-Za-z0-9._+-]*))?")
_TAG = re.compile(r"[a-z0-9][a-z0-9.-]*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# What no branch or tag is called, and what git would read as something else than a name.
_NO_REF = re.compile(r"^[-/.]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|\.lock(?:/|$)|[/.]$")
# The beginning of a commit's id, which names nothing that lasts. Words and dates are left to branches and tags.
_SHORT_COMMIT = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{7,39}")
REVISION_LIMIT = 200
REVISION_DIGITS = 18


@dataclass(frozen=True)
class DirectoryReference:
    """A local directory. Counts as pinned, and is read again at each fetch."""

    path: str


@dataclass(frozen=True)
class HuggingFaceReference:
    """repository: `org/name`. revision: None for the default branch. path: of the dataset in it, "" for the root."""

    repository: str
    revision: str | None
    path: str

    @property
    def pinned(self) -> bool:
        return self.revision is not None and _HF_COMMIT.fullmatch(self.revision) is not None


@dataclass(frozen=True)
class HubReference:
    """package: `org/name`. ref: a tag, a revision's number or a digest, as `kind` says."""

    package: str
    kind: Literal["tag", "revision", "digest"]
    ref: str

    @property
    def pinned(self) -> bool:
        return self.kind != "tag"


@dataclass(frozen=True)
class RegistryReference:
    """A dataset of a registry file. version: None for the newest."""

    name: str
    version: str | None


@dataclass(frozen=True)
class GitReference:
    """ref: a commit, branch or tag, None for the default branch. path: of the dataset in the repository, "" for the root."""

    url: str
    ref: str | None
    path: str

    @property
    def pinned(self) -> bool:
        return self.ref is not None and is_commit(self.ref)


Reference = DirectoryReference | HuggingFaceReference | HubReference | RegistryReference | GitReference


def is_commit(text: str) -> bool:
    """Whether a text is the full id of a commit."""
    return COMMIT.fullmatch(text) is not None


def is_package(text: str) -> bool:
    """Whether a text is `org/name` as the Hub has it."""
    return _PACKAGE.fullmatch(text) is not None


def parse_reference(text: str) -> Reference:
    """The reference that a text writes. Raises ValueError, whose text is a rule and shows no secret."""
    if not text or any(character in text for character in "\0\n\r"):
        raise ValueError("must be a path or a reference, on one line")
    check_without_credentials(text)
    if text.startswith("git+"):
        return _git(text.removeprefix("git+"))
    if text.startswith("hf://"):
        return _hugging_face(text.removeprefix("hf://"))
    if text.startswith("harbor://"):
        return _harbor(text.removeprefix("harbor://"))
    if (found := _SCHEME.match(text)) is not None:
        known = "a path, hf://, harbor:// or git+<url>"
        raise ValueError(f"is of no known kind, {found['scheme'][:20]}: ({known}; a directory of that name has ./ before it)")
    return DirectoryReference(text)


def check_inner_path(path: str) -> str:
    """A path inside a repository without slashes at its ends. Raises ValueError when it does not stay inside."""
    if any(character in path for character in "\0\n\r") or path.startswith("/"):
        raise ValueError("a path in a repository is relative, on one line")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or ".git" in parts:
        raise ValueError("a path in a repository has no '..' and no '.git'")
    return "/".join(parts)


def check_git_ref(ref: str) -> None:
    """Raises ValueError for what cannot name a commit, branch or tag."""
    if not ref or len(ref) > REVISION_LIMIT or _NO_REF.search(ref):
        raise ValueError("must end in a commit, branch or tag")


def _git(rest: str) -> GitReference:
    address, _, path = rest.partition("#")
    start = address.find("://") + 3
    slash = address.find("/", start)
    # A user of an SSH server stands before the first slash: that `@` begins no ref.
    at = address.rfind("@", slash) if slash >= 0 else -1
    url, ref = (address[:at], address[at + 1 :]) if at >= 0 else (address, None)
    check_address(url, GIT_SCHEMES)
    if ref is not None:
        check_git_ref(ref)
        if ref != ref.lower() and is_commit(ref.lower()):
            raise ValueError("must end in a commit, branch or tag; a commit is written in lower case")
        if _SHORT_COMMIT.fullmatch(ref):
            rule = (
                f"a commit is written with all its 40 or 64 hex digits, a branch that is called like part of one refs/heads/{ref}"
            )
            raise ValueError(rule)
    return GitReference(url, ref, check_inner_path(path))


def _hugging_face(rest: str) -> HuggingFaceReference:
    address, _, path = rest.partition("#")
    name, at, revision = address.removeprefix("datasets/").partition("@")
    if not _PACKAGE.fullmatch(name):
        raise ValueError("must be hf://org/name, with @revision and #folder where wanted")
    if at:
        check_git_ref(revision)
    return HuggingFaceReference(name, revision if at else None, check_inner_path(path))


def _harbor(rest: str) -> HubReference | RegistryReference:
    if "/" not in rest:
        if (found := _VERSIONED.fullmatch(rest)) is None:
            raise ValueError("must be harbor://name@version")
        return RegistryReference(found["name"], found["version"])
    package, at, ref = rest.partition("@")
    if not _PACKAGE.fullmatch(package):
        raise ValueError("must be harbor://org/name, with @ref where wanted")
    if not at or ref == "latest":
        return HubReference(package, "tag", "latest")
    if ref.isascii() and ref.isdigit():
        if len(ref) > REVISION_DIGITS:
            raise ValueError(f"a revision's number has at most {REVISION_DIGITS} digits")
        return HubReference(package, "revision", ref)
    if _DIGEST.fullmatch(ref):
        return HubReference(package, "digest", ref)
    if not _TAG.fullmatch(ref):
        raise ValueError(
            "must end in a revision's number, sha256: and 64 hex digits, or a tag of lower-case letters, digits, . and -"
        )
    return HubReference(package, "tag", ref)
