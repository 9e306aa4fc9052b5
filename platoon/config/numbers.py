"""Numbers as a person reads them: thousands apart, a minus sign that is one, an en dash where there is no number."""

from __future__ import annotations

from typing import Any

MISSING, MINUS = "–", "−"


def number(value: Any, digits: int = 0) -> str:
    """A number, or a text as it is; zero has no sign."""
    if value is None:
        return MISSING
    return f"{value:z,.{digits}f}".replace("-", MINUS) if isinstance(value, int | float) else str(value)


def change(before: float, after: float, digits: int = 3) -> str:
    """The difference with its sign; none for what rounds to zero."""
    text = number(after - before, digits)
    return f"+{text}" if text.strip("0.,") and not text.startswith(MINUS) else text


def seconds(value: Any) -> str:
    """A duration."""
    if value is None:
        return MISSING
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
