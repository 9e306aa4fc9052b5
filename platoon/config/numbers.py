"""Numbers as a person reads them: thousands apart, a minus sign that is one, an en dash where there is no number."""

from __future__ import annotations

from typing import Any

MISSING, MINUS = "–", "−"
SCORE_DIGITS = 3


def number(value: Any, digits: int = 0) -> str:
    """A number, or a text as it is; zero has no sign."""
    if value is None:
        return MISSING
    return f"{value:z,.{digits}f}".replace("-", MINUS) if isinstance(value, int | float) else str(value)


def score(value: Any) -> str:
    """What a rollout, a run or an evaluation is judged by, in every table, line and figure: a reward, a part of one, a loss."""
    return number(value, SCORE_DIGITS)


def change(before: float, after: float) -> str:
    """The difference of two scores with its sign; none for what rounds to zero."""
    text = score(after - before)
    return f"+{text}" if text.strip("0.,") and not text.startswith(MINUS) else text


def seconds(value: Any) -> str:
    """A duration."""
    if value is None:
        return MISSING
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
