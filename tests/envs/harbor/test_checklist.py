"""Every row of the area's checklist that ends at the lock has a test that names it; the others say where they end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROWS = tuple(f"h{number:03}" for number in (*range(1, 55), *range(501, 518)))

# Row to why no test of the lock can prove it.
NOT_AT_THE_LOCK = {
    "h008": "needs checkouts of Frontier-CS's and Harbor's own adapters and their downloads; the contract is h006 and h015",
}


def test_every_row_is_proven_or_says_why_not(checkout: Path) -> None:
    named: set[str] = set()
    for folder in ("tests/envs", "tests/pipeline", "tests/cli", "tests/images"):
        for path in (checkout / folder).rglob("*.py"):
            if path != Path(__file__):
                named.update(re.findall(r"h\d{3}(?=_)", " ".join(re.findall(r"def (test_\w+)", path.read_text()))))
                # Rows that a case of a table proves are named in a comment beside it.
                named.update(row.lower() for row in re.findall(r"\bH\d{3}\b", path.read_text()))
    assert set(ROWS) - named == set(NOT_AT_THE_LOCK)
