"""Numbers for people: a score has one precision wherever it is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import platoon
from platoon.config.numbers import score

pytestmark = pytest.mark.unit

OWN_FORMAT = re.compile(
    r"\{[^{}]*(?:reward|loss|score)[^{}]*:[^{}]*[fg]\}|(?:reward|component|score)[^\n]*(?:number\([^()]*, ?\d|\| ?number\(\d)"
)


@pytest.mark.parametrize(
    ("value", "text"), [(0.69444, "0.694"), (1, "1.000"), (-0.5, "−0.500"), (-0.0001, "0.000"), (1234.5, "1,234.500"), (None, "–")]
)
def test_a_score(value: Any, text: str) -> None:
    assert score(value) == text


def test_nothing_shows_a_score_in_a_format_of_its_own() -> None:
    assert OWN_FORMAT.search('f"mean reward {reward_sum / 2:.3f}"') and OWN_FORMAT.search("{{ x.reward_mean | number(3) }}")
    root = Path(platoon.__file__).parent
    files = [path for path in root.rglob("*") if path.suffix in (".py", ".j2")]
    assert [str(path) for path in files if OWN_FORMAT.search(path.read_text())] == []
