"""Values and names as a person may read them: on one line, bounded, safe for a terminal."""

from __future__ import annotations

import json
from typing import Any

SHOWN_CHARACTERS = 80


def show(value: Any) -> str:
    """A value as a person would write it, on one line, cut where it gets long."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    text = printable(text)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


def printable(text: str) -> str:
    """Text on one line, safe for a terminal: what does not print is escaped, lone surrogates of undecodable names too."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
