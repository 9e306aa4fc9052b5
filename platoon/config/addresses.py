"""Addresses that a configuration or a dataset names: what may stand in one, and no secret among it.

A refusal never quotes an address that holds a secret, nor one that could not be taken apart.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from platoon.config.credentials import holds_userinfo, names_secret

GIT_SCHEMES = ("https", "ssh", "git", "file")
WEB_SCHEMES = ("https", "http")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# `user@host:path`, as git writes the address of an SSH server.
_SCP = re.compile(r"[\w.-]+@[\w.-]+:.*", re.DOTALL)
_HOST = re.compile(r"[\w.-]+|[0-9A-Fa-f:.]+(?:%[\w.-]+)?")


def is_address(text: str) -> bool:
    """Whether a text names something elsewhere; any other is a path."""
    return _SCHEME.match(text) is not None or _SCP.fullmatch(text) is not None


def check_without_credentials(text: str) -> None:
    """Raises ValueError, whose text is a rule and shows no secret, for a path or address that has a user and password."""
    if holds_userinfo(text):
        raise ValueError("must hold no user or password")


def check_address(text: str, schemes: tuple[str, ...]) -> None:
    """Raises ValueError, whose text is a rule and shows no secret, unless `text` is an address without credentials."""
    if not text.isprintable() or " " in text:
        raise ValueError("an address is one line without blanks")
    if _SCP.fullmatch(text) and not _SCHEME.match(text):
        raise ValueError("must be a URL (user@host:path is written ssh://user@host/path)")
    check_without_credentials(text)
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise ValueError("is no URL") from None
    if parts.scheme not in schemes:
        raise ValueError(f"must be a URL of {', '.join(schemes)}")
    if not text.startswith(parts.scheme):
        # git knows no other way.
        raise ValueError(f"a scheme is written in lower case: {parts.scheme}")
    if not _SCHEME.match(text):
        raise ValueError(f"is written {parts.scheme}://{'/<path>' if parts.scheme == 'file' else '<host>/<path>'}")
    if (why := _credential(parts)) is not None:
        raise ValueError(why)
    if not parts.hostname and parts.scheme != "file":
        raise ValueError("names no host")
    if parts.hostname and parts.hostname.startswith("-"):
        raise ValueError("a host does not begin with '-'")
    if parts.hostname and not _HOST.fullmatch(parts.hostname):
        raise ValueError("a host is a name or a number")


def _credential(parts: SplitResult) -> str | None:
    user, at, _ = unquote(parts.netloc).rpartition("@")
    if at and (parts.scheme in WEB_SCHEMES or ":" in user or parts.scheme == "file"):
        return "must hold no user or password"
    if user.startswith("-"):
        return "a user does not begin with '-'"
    for text in (parts.query, parts.fragment):
        for name, _ in parse_qsl(text.replace(";", "&"), keep_blank_values=True):
            if names_secret(name):
                return f"must hold no credential (the parameter {name[:40]})"
    return None
