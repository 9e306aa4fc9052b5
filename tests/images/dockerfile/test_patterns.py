"""Patterns of variables are BuildKit's: what is cut off and replaced, in bounds, and by a session as by the build."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.images.dockerfile import DockerfileError, plan_image
from platoon.images.dockerfile.patterns import TRIES_LIMIT, replaced, trimmed
from platoon.images.dockerfile.words import BACKSLASH, BadWordError, deferred_text, expand, expand_deferred

pytestmark = pytest.mark.unit

KNOWN = {"V": "3.12.1", "P": "a/b/c.tar.gz", "S": "a*b*c", "EMPTY": "", "X": "xxyxx", "B": r"a\b", "CUT": "#*.", "BRACE": "a}b/c"}

TABLE = [
    ("${V%.*}", "3.12"),
    ("${V%%.*}", "3"),
    ("${V#*.}", "12.1"),
    ("${V##*.}", "1"),
    ("${V:%.*}", "3.12"),
    ("${V%}${V#}", "3.12.13.12.1"),
    ("${V%[0-9]}", "3.12.1"),
    ("${V%x}${NONE%x}${EMPTY%%*}", "3.12.1"),
    ("${P##*/}", "c.tar.gz"),
    ("${P%/*}", "a/b"),
    ("${P%%.???.*}", "a/b/c"),
    (r"${P/\//-}", "a-b/c.tar.gz"),
    (r"${P//\//-}", "a-b-c.tar.gz"),
    (r"${P//'/'/-}", "a-b-c.tar.gz"),
    ("${V/./_}", "3_12.1"),
    ("${V//./}", "3121"),
    ("${V/?/n}${V//?/n}", "n.12.1nnnnnn"),
    ("${V/1*/z}", "3.z"),
    ("${V//*/z}", "z"),
    ("${EMPTY/*/z}${EMPTY//*/z}", "zz"),
    ("${V///-}", "-3-.-1-2-.-1-"),
    ("${X//x/}${X//xx/-}", "y-y-"),
    (r"${S#a\*}${S%%\*c}", "b*ca*b"),
    (r"${B//\\/-}", "a-b"),
    (r"${BRACE%\}*}", "a"),
    ("${BRACE%'}'*}", "a"),
    ('"${BRACE%"}"*}"', "a"),
    ("${BRACE/}/-}", "a-b/c"),
    ("${V/.*/'}'}", "3}"),
    ("${V%${NONE:-.*}}", "3.12"),
    ("${V/${V%%.*}/${P%%/*}}", "a.12.1"),
    # The second sign may be a variable's.
    ("${V#$CUT}", "1"),
    ("'${V%.*}'", "${V%.*}"),
]


@pytest.mark.parametrize(("word", "value"), TABLE)
def test_a_pattern_is_applied_by_plan_and_session_alike(word: str, value: str) -> None:
    assert expand(word, BACKSLASH, lambda name: (name in KNOWN, KNOWN.get(name, ""))) == value
    assert expand_deferred(deferred_text(word, BACKSLASH), KNOWN) == value


REFUSED = [
    ("${V%", "an open brace"),
    ("${V%'}", "an open brace"),
    ("${V/a}", "no / behind the pattern"),
    ("${V/a/b", "an open brace"),
    (r"${V/\a/b}", r"\$\{V/…\}: \\a is no escape of a pattern"),
    ("${V%'\\'}", r"\\ is no escape of a pattern"),
    ("${V//./'$1'}", r"a \$ in what // puts in"),
    ("${LINES%x}", "takes no value of several lines"),
    ("${V^^}", "an operator that is not known here"),
    ("${%x}", "no variable name"),
]


@pytest.mark.parametrize(("word", "why"), REFUSED)
def test_what_is_no_pattern_is_refused(word: str, why: str) -> None:
    known = {**KNOWN, "LINES": "a\nx"}
    with pytest.raises(BadWordError, match=why):
        expand(word, BACKSLASH, lambda name: (name in known, known.get(name, "")))


@pytest.mark.parametrize("word", ["${U%.*}", "${V%$U}", "${V/a/$U}", "x${U//a/b}"])
def test_what_depends_on_the_base_is_unknown(word: str) -> None:
    assert expand(word, BACKSLASH, lambda name: (True, KNOWN.get(name))) is None


def matches(pattern: str, text: str) -> bool:
    """Whether all of a text is what a pattern says, by its definition."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(matches(pattern[1:], text[cut:]) for cut in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and matches(pattern[1:], text[1:])


def cuts(pattern: str, value: str, *, at_end: bool) -> Iterator[str]:
    """What may stay, from the shortest match to the longest."""
    for cut in range(len(value) + 1):
        taken, kept = (value[len(value) - cut :], value[: len(value) - cut]) if at_end else (value[:cut], value[cut:])
        if matches(pattern, taken):
            yield kept


@given(st.text("ab", max_size=8), st.text("ab*?", max_size=5), st.booleans(), st.booleans())
def test_the_shortest_and_the_longest_match_are_cut_off(value: str, pattern: str, at_end: bool, longest: bool) -> None:
    kept = list(cuts(pattern, value, at_end=at_end)) or [value]
    assert trimmed(value, pattern, at_end=at_end, longest=longest) == kept[-1 if longest else 0]


@given(st.text("ab", max_size=8), st.text("ab*?", max_size=5))
def test_the_first_longest_match_is_replaced(value: str, pattern: str) -> None:
    expected = value
    for start in range(len(value) + 1):
        if kept := list(cuts(pattern, value[start:], at_end=False)):
            expected = f"{value[:start]}-{kept[-1]}"
            break
    assert replaced(value, pattern, "-", every=False) == expected


@pytest.mark.parametrize("word", ["${A%%$P}", "${A##$P}", "${A/$P/x}", "${A//$P/x}"])
def test_a_pattern_that_fails_late_is_bounded(tmp_path: Path, word: str) -> None:
    """Stars that are tried again and again would take longer than any build."""
    half = int(TRIES_LIMIT**0.5)
    pattern = "a*" * (half // 2 - 1) + "b"
    for length, why in ((half, None), (half + 9, "is too long for a pattern")):
        text = f"FROM scratch\nARG A={'a' * length}\nARG P={pattern}\n" + f"ENV B={word}\n" * 100
        if why is None:
            assert plan_image(tmp_path, text).deferred[-1] == ("ENV", "B", word)
            continue
        with pytest.raises(DockerfileError, match=why):
            plan_image(tmp_path, text)
