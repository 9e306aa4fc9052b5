"""Values and names as a person may read them: on one line, bounded, safe for a terminal, without the secrets of URLs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, time
from typing import Any

from platoon.config.credentials import hide_credentials

SHOWN_CHARACTERS = 80
MOST_NAMES = 6
MOST_PATH_CHARACTERS = 240
MOST_JUDGED_CHARACTERS = 4096


def show(value: Any) -> str:
    """A value as a person would write it, on one line, cut where it gets long."""
    try:
        # A date stands without quotes, as TOML has it.
        text = str(value) if isinstance(value, date | time) else json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        text = repr(value)
    text = printable(hide_credentials(_cut(text)))
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


def printable(text: str) -> str:
    """Text on one line, safe for a terminal: what does not print is escaped, a byte that is no UTF-8 as that (`\\xff`)."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    # Python keeps such a byte as half a surrogate pair.
    is_byte = "\udc80" <= character <= "\udcff"
    return f"\\x{ord(character) - 0xDC00:02x}" if is_byte else repr(character)[1:-1]


def clip(text: str, characters: int = 60) -> str:
    """The beginning of a text for a message, without secrets; what is cut off is told by three dots."""
    shown = hide_credentials(_cut(text))
    return shown if len(shown) <= characters else f"{shown[: characters - 1]}…"


def short_path(text: str) -> str:
    """A path or a name for a message: safe for a terminal, without secrets, and without the middle of one that is far too long."""
    shown = printable(hide_credentials(text))
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


def _cut(text: str) -> str:
    """The beginning of a long text; what would end in the middle of an address ends like one with a secret, which hides it."""
    return text if len(text) <= MOST_JUDGED_CHARACTERS else f"{text[:MOST_JUDGED_CHARACTERS]}@"
