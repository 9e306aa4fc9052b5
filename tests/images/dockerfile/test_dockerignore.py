"""Ignore files of build contexts: the engine's rules, not git's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.images.dockerfile import DockerfileError
from platoon.images.dockerfile import dockerignore as module
from platoon.images.dockerfile.dockerignore import compile_ignore

pytestmark = pytest.mark.unit

TABLE = [
    ("a", "a", True),
    ("a", "b/a", False),
    ("a", "a/b/c", True),
    ("/a", "a", True),
    ("./a//b/../c", "a/c", True),
    ("a/", "a/b", True),
    ("*.log", "x.log", True),
    ("*.log", "d/x.log", False),
    ("*/x", "d/x", True),
    ("*/x", "d/e/x", False),
    ("**/*.log", "x.log", True),
    ("**/*.log", "d/e/x.log", True),
    ("**", "a/b", True),
    ("a/**", "a/b/c", True),
    ("a/**/b", "a/b", True),
    ("a/**/b", "a/x/y/b", True),
    ("a/**/b", "a/xb", False),
    ("?", "a", True),
    ("a?b", "a/b", False),
    ("[a-c]x", "bx", True),
    ("[^a-c]x", "bx", False),
    ("[^a-c]x", "dx", True),
    ("a[^x]b", "a/b", False),
    (r"\*", "*", True),
    (r"\*", "x", False),
    ("# a", "# a", False),
    (" # a", "# a", True),
    ("", "a", False),
    (".", "a", False),
    ("a\n!a/b", "a/b", False),
    ("a\n!a/b", "a/c", True),
    ("!a\na", "a", True),
    ("*\n!*.md\nREADME.md", "x.md", False),
    ("*\n!*.md\nREADME.md", "README.md", True),
    ("a.b", "axb", False),
    ("é*", "éa", True),
]


@pytest.mark.parametrize(("text", "path", "ignored"), TABLE)
def test_table(text: str, path: str, ignored: bool) -> None:
    assert compile_ignore(text)(path) is ignored


@pytest.mark.parametrize("text", ["!", "a\n! ", "[", "[z-a]x", "a\\"])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(DockerfileError, match=r"\.dockerignore:\d: "):
        compile_ignore(text)


def test_many_stars_cost_no_more_than_the_path_is_long() -> None:
    """A hostile pattern would keep a backtracking matcher busy for years."""
    assert compile_ignore("*a" * 25 + "b")("a" * 500) is False
    assert compile_ignore("**/a" * 25 + "b")("a/" * 200 + "a") is False


PIECES = st.lists(st.sampled_from(["a", "b", "/", "*", "?", "**/", "**", "[ab]", "."]), min_size=1, max_size=9).map("".join)


@given(PIECES, st.lists(st.sampled_from(["a", "b", "ab", "a.b"]), min_size=1, max_size=4).map("/".join))
def test_both_matchers_agree(pattern: str, path: str) -> None:
    try:
        quick = compile_ignore(pattern)
    except DockerfileError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "REGEX_REPEATS", -1)
        walking = compile_ignore(pattern)
    assert quick(path) == walking(path)
