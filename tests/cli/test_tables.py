"""Tables at any width: what a row is called and short digests are whole, and every cell is there."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from platoon.cli.screen import print_table, short_digest

pytestmark = pytest.mark.unit

COLUMNS = ("environment", "tasks", "base", "lock")
ROWS = [
    ("a-name-of-some-length", "12", "registry.example/a/long/reference:1.0, ubuntu:24.04", "sha256:0123456789ab"),
    ("[b]\n", "3", "", "sha256:ba9876543210"),
]


def shown(width: int, columns: tuple[str, ...], **options: object) -> str:
    console = Console(width=width, file=io.StringIO(), highlight=False, markup=False)
    print_table(console, "things", ROWS, columns, **options)  # type: ignore[arg-type]
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [1, 10, 20, 40, 60, 76, 77, 80, 100, 200, 1000])
def test_names_and_digests_are_whole_at_any_width(width: int) -> None:
    text = shown(width, COLUMNS, numbers={"tasks"})
    assert all(word in text for word in ("a-name-of-some-length", r"[b]\n", "sha256:0123456789ab", "sha256:ba9876543210", "12"))
    folded = "┃" not in text
    if folded:
        assert text.splitlines()[:5] == [
            "things",
            "  a-name-of-some-length",
            "    tasks: 12",
            f"    base: {ROWS[0][2]}",
            "    lock: sha256:0123456789ab",
        ]
    # 21, 5, 20 and 19 characters, and three for each column's border.
    assert folded == (width < 78)
    assert folded or all(len(line) <= width for line in text.splitlines())


@pytest.mark.parametrize("width", [10, 40, 80, 200])
def test_settings_keep_their_names(width: int) -> None:
    text = shown(width, ())
    assert all(name in text for name in ("a-name-of-some-length", "12", r"[b]\n", "3"))
    if width < 78:
        assert "  a-name-of-some-length 12 registry.example/a/long/reference:1.0, ubuntu:24.04: sha256:0123456789ab" in text


def test_a_field_without_a_value_takes_no_line() -> None:
    assert shown(60, COLUMNS).splitlines()[5:] == [r"  [b]\n", "    tasks: 3", "    lock: sha256:ba9876543210"]


def test_digests_are_short_and_other_texts_whole() -> None:
    assert short_digest("sha256:" + "0" * 64) == "sha256:000000000000"
    assert short_digest("ref:registry.example/a@sha256:" + "0" * 64).endswith("0" * 64)
