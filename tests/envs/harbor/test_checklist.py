"""Every row of the area's checklists has a test that names it, or stands here with why no test of a lock can prove it.

A row is named by a test in its function's name (`test_h012_…`) or its docstring, by a comment beside the case of a table, or by a
case of the compose corpus in its header.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from platoon.envs.harbor.options import HarborOptions
from platoon.errors import ConfigError
from tests.envs.harbor.compose.corpus import cases, topics

pytestmark = pytest.mark.unit

ROWS = frozenset({*(f"h{number:03}" for number in (*range(1, 55), *range(501, 518))), "i506", "i508", "i509", "i510"})

# Row to why.
NOT_AT_THE_LOCK = {
    "h050": "`stacks: host_network` is refused by key until that fallback is served",
}
# Rows whose sentence goes on at a session: what of them a lock can show is tested, the rest is named here.
GOES_ON = {
    "h008": "that upstream's own adapters run: needs checkouts of them; their shape is tested",
    "h036": "that a sandbox has the value: a stack's start",
    "h052": "that the user is expanded against the image's environment: a session's",
    "h054": "that a rollout's scope carries the value: a node service's",
    "i510": "that a session applies the step",
}


def test_every_row_is_proven_or_says_why_not(checkout: Path) -> None:
    named: set[str] = set()
    for folder in ("tests/envs", "tests/pipeline", "tests/cli", "tests/images"):
        for path in (checkout / folder).rglob("test_*.py"):
            if path != Path(__file__):
                text = path.read_text(encoding="utf-8")
                named.update(re.findall(r"(?<=_)[hi]\d{3}(?=_)", " ".join(re.findall(r"def (test_\w+)", text))))
                named.update(row.lower() for row in re.findall(r"\b[HI]\d{3}\b", _outside_code(text)))
    named.update(row.lower() for topic in topics() for case in cases(topic) for row in case.header.get("rows", ()))
    assert ROWS - named == set(NOT_AT_THE_LOCK)
    assert set(GOES_ON) <= named


def test_h050_is_still_refused_by_key() -> None:
    with pytest.raises(ConfigError, match="stacks"):
        HarborOptions.parse({"dataset_dir": "data", "stacks": "host_network"})


def _outside_code(text: str) -> str:
    """Docstrings and comments: what a list of names holds proves nothing."""
    docstrings = re.findall(r'"""(.*?)"""', text, re.DOTALL)
    return " ".join([*docstrings, *re.findall(r"#(.*)", text)])
