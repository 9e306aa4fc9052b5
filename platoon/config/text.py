"""Values and names as a person may read them: on one line, bounded, safe for a terminal, without the secrets of URLs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

SHOWN_CHARACTERS = 80
MOST_NAMES = 6
MOST_PATH_CHARACTERS = 240

# What a URL's query calls its secrets: these words anywhere in a name, or these short names alone.
SECRET_WORDS = r"token|secret|passw|signature|credential|api[-_]?key|access[-_]?key|auth|jwt|session"  # noqa: S105  because it names them
SECRET_NAMES = r"key|sig|pw|pwd|pat"  # noqa: S105  because it names them
_USERINFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<user>[^/?#\s]*)@")
_QUERY = re.compile(rf"(?P<name>[?&;](?:[\w.%-]*(?:{SECRET_WORDS})[\w.%-]*|{SECRET_NAMES})=)[^&;#\s'\"]+", re.IGNORECASE)


def show(value: Any) -> str:
    """A value as a person would write it, on one line, cut where it gets long."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    text = printable(hide_credentials(text))
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


def printable(text: str) -> str:
    """Text on one line, safe for a terminal: what does not print is escaped, lone surrogates of undecodable names too."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def short_path(text: str) -> str:
    """A path or a name for a message: safe for a terminal, and without the middle of one that is far too long."""
    shown = printable(text)
    half = MOST_PATH_CHARACTERS // 2
    return shown if len(shown) <= MOST_PATH_CHARACTERS else f"{shown[:half]}…{shown[-half:]}"


def quoted(text: str) -> str:
    """A name in single quotes, as `short_path` shows it."""
    return f"'{short_path(text)}'"


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 task`, `2 tasks`. plural: where an s does not make it."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def short_seconds(seconds: float) -> str:
    """`600 s`, `1.5 s`, `0.02 s`: whole from ten on, two digits below."""
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def few(names: Sequence[str]) -> str:
    """The first names, safe for a terminal, and how many more there are."""
    shown = ", ".join(map(printable, names[:MOST_NAMES]))
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES} more"


def hide_credentials(text: str) -> str:
    """Text in which the secrets of every URL are replaced by `***`: user and password, and parameters that are called like secrets.

    The user alone of an SSH address (`ssh://git@host`) is no secret and stays.
    """
    return _QUERY.sub(r"\g<name>***", _USERINFO.sub(_without_userinfo, text))


def _without_userinfo(match: re.Match[str]) -> str:
    is_plain_user = match["scheme"].lower().endswith("ssh") and ":" not in match["user"]
    return match[0] if is_plain_user else f"{match['scheme']}://***@"
