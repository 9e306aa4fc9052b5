"""Every row of the area's checklists has a test that names it, or stands here with why no test can prove it yet.

A test names a row in its function's name (`test_h012_…`), in that function's docstring, or in a comment of the table it is given; a
case of the two corpora names it in its header. A row that a module speaks of elsewhere is not named by it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from platoon.envs.harbor.options import HarborOptions
from platoon.errors import ConfigError
from tests.envs.harbor.compose.corpus import cases, topics
from tests.images.dockerfile.test_corpus import CORPUS, read

pytestmark = pytest.mark.unit

PLANNING = ("i005", "i013", "i506", "i508", "i509", "i510", "i511")
ROWS = frozenset({*(f"h{number:03}" for number in (*range(1, 55), *range(501, 518))), *PLANNING})

# Row to why.
NOT_YET = {
    "h039": "no provider runs stacks, so that every stack is left out, whatever its sidecar's image",
    "h050": "`stacks: host_network` is refused by key until that fallback is served",
}
# Rows whose sentence goes on: what of them can be shown is tested, the rest is named here.
GOES_ON = {
    "h008": "Frontier-CS's adapter runs by hand: needs its repository; Harbor's own are in none of its packages",
    "h036": "that a sandbox has the value: a stack's start",
    "h041": "that a stack which can start does not stop the run: no provider runs stacks",
    "h052": "that the user is expanded against the image's environment: a session's",
    "h054": "that a rollout's scope carries the value: a node service's",
    "i510": "that a session applies the step",
}


def test_every_row_is_proven_or_says_why_not(checkout: Path) -> None:
    named: set[str] = set()
    for folder in ("tests/envs", "tests/pipeline", "tests/cli", "tests/images", "tests/eval"):
        for path in (checkout / folder).rglob("test_*.py"):
            if path != Path(__file__):
                named.update(rows_named(path.read_text(encoding="utf-8")))
    named.update(row.lower() for topic in topics() for case in cases(topic) for row in case.header.get("rows", ()))
    named.update(row.lower() for path in CORPUS.glob("*/*.Dockerfile") for row in read(path)[0].get("rows", ()))
    assert ROWS - named == set(NOT_YET)
    assert set(GOES_ON) <= named


def test_only_a_test_names_a_row() -> None:
    """Neither a module's docstring, nor a helper's, nor a comment or a string in a body."""
    text = '''"""Row H001."""
# H002.
@pytest.mark.parametrize("row", [
    "H003",
    "x",  # H004
])
def test_h005_and_i006() -> None:
    """Row H007."""
    # H008.
    assert "H009"


def test_plain() -> None:
    def test_h010_inner() -> None:
        """H011."""


def helper_h012() -> None:
    """Row H013."""
'''
    assert set(rows_named(text)) == {"h004", "h005", "i006", "h007"}


def test_h050_is_still_refused_by_key() -> None:
    with pytest.raises(ConfigError, match="stacks"):
        HarborOptions.parse({"dataset_dir": "data", "stacks": "host_network"})


def rows_named(text: str) -> Iterator[str]:
    """The rows that the tests of a module name."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            table = lines[node.decorator_list[0].lineno - 1 : node.lineno - 1] if node.decorator_list else []
            comments = [line.partition("#")[2] for line in table]
            yield from re.findall(r"(?<=_)[hi][0-9]{3}(?=_|$)", node.name)
            yield from map(str.lower, re.findall(r"\b[HI][0-9]{3}\b", " ".join([ast.get_docstring(node) or "", *comments])))
