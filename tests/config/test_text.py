"""Values as a person reads them."""

from __future__ import annotations

import pytest

from platoon.config.text import printable, short_seconds

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 s"), (0.0213, "0.021 s"), (0.5, "0.5 s"), (1.46, "1.5 s"), (9.98, "10 s"), (600.4, "600 s"), (86400.0, "86400 s")],
)
def test_seconds_are_never_rounded_to_nothing(seconds: float, text: str) -> None:
    assert short_seconds(seconds) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [("kä", "kä"), ("a\nb", r"a\nb"), ("\x1b[1m", r"\x1b[1m"), (b"a\xff\xc3".decode("utf-8", "surrogateescape"), r"a\xff\xc3")],
)
def test_names_are_shown_on_one_line(text: str, shown: str) -> None:
    assert printable(text) == shown
