"""Wildcards of COPY and ADD as Go's `filepath.Match` reads them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.images.dockerfile import plan_image
from platoon.images.dockerfile.copies import PATTERN_LIMIT
from platoon.images.dockerfile.wildcards import files_matching

pytestmark = pytest.mark.unit

TABLE = [
    ("*", "a", True),
    ("*", "d/e/f", True),
    ("*.x", "a.x", True),
    ("*.x", "d/a.x", False),
    ("d/*.x", "d/a.x", True),
    ("d/*.x", "d/e/a.x", False),
    # Two stars are one.
    ("**.x", "a.x", True),
    ("**.x", "d/a.x", False),
    ("**/a", "a", False),
    ("**/a", "d/a", True),
    ("d*", "dir/below/f", True),
    ("d*/", "dir/below/f", True),
    ("a?c", "abc", True),
    ("a?c", "ac", False),
    ("a?c", "a/c", False),
    ("[a-c]x", "bx", True),
    ("[^a-c]x", "bx", False),
    ("[^a-c]x", "dx", True),
    ("[!a]x", "!x", True),
    ("[!a]x", "bx", False),
    (r"[\]]x", "]x", True),
    (r"[\]-_]x", "^x", True),
    ("[c-a]x", "bx", False),
    ("[^c-a]x", "bx", True),
    ("[a-c0]", "0", True),
    (r"\*", "*", True),
    (r"\*", "x", False),
    ("(a|b)*", "a", False),
    ("(a|b)*", "(a|b)c", True),
    # What is no pattern may take anything.
    ("[a", "z", True),
    ("[]a]", "z", True),
    ("[-a]", "z", True),
    ("a*\\", "z", True),
]


@pytest.mark.parametrize(("pattern", "file", "is_taken"), TABLE)
def test_table(pattern: str, file: str, is_taken: bool) -> None:
    assert (files_matching(pattern, [file]) == (file,)) is is_taken


@given(st.text("a/*?[]^-\\b", max_size=20), st.lists(st.text("ab/", min_size=1, max_size=10), max_size=3))
def test_any_text_is_a_pattern(pattern: str, files: list[str]) -> None:
    assert set(files_matching(pattern, files)) <= set(files)


@given(st.text("ab/*?", min_size=1, max_size=12), st.text("ab/", min_size=1, max_size=12))
def test_stars_that_are_tried_once_find_what_any_would(pattern: str, file: str) -> None:
    anyhow = "".join({"*": "[^/]*", "?": "[^/]"}.get(character, character) for character in pattern)
    if not pattern.endswith("/") and pattern.count("/") == file.count("/"):
        assert (files_matching(pattern, [file]) == (file,)) is (re.fullmatch(anyhow, file) is not None)


def test_many_stars_end() -> None:
    assert files_matching("*a" * 120 + "b", ["a" * 250] * 100) == ()
    assert files_matching("*a" * 250_000, ["b"]) == ("b",)


def test_of_too_many_patterns_the_whole_context_is_taken(tmp_path: Path) -> None:
    for name in ("a.x", "b"):
        (tmp_path / name).touch()
    lines = [f"COPY {'?' * count}.x /x/\n" for count in range(1, PATTERN_LIMIT + 2)]
    assert plan_image(tmp_path, f"FROM alpine\n{''.join(lines[:-1])}").inputs == ("a.x",)
    assert plan_image(tmp_path, f"FROM alpine\n{''.join(lines)}").inputs == ("a.x", "b")
