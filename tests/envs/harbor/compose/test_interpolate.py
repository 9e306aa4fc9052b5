"""Interpolation against a twin that evaluates what made it; host variables against what they turn out to be. Rows H028, H036."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.interpolate import Host, Use, interpolate
from platoon.envs.harbor.compose.text import Part, Text, resolve

pytestmark = pytest.mark.unit

NAMES = ("A", "B", "EMPTY", "UNSET")
VALUES = {"A": "a", "B": "b c", "EMPTY": ""}
OPERATORS = ("-", ":-", "+", ":+", "?", ":?")


@dataclass(frozen=True)
class Names:
    """A plain scope. host: names that only a session knows."""

    values: Mapping[str, str]
    host: frozenset[str] = frozenset()

    def lookup(self, name: str) -> Text | Host | None:
        return Host(name) if name in self.host else self.values.get(name)


@dataclass(frozen=True)
class Variable:
    name: str
    operator: str
    word: tuple[str | Variable, ...]


LITERALS = st.sampled_from(["x", " ", "{k: v}", "-", ":?", "y-z", "é", "(", "$$"])
TREES = st.recursive(
    st.lists(LITERALS, max_size=3),
    lambda inner: st.lists(
        st.one_of(
            LITERALS,
            st.builds(Variable, st.sampled_from(NAMES), st.sampled_from(OPERATORS), inner.map(tuple)),
            st.builds(Variable, st.sampled_from(NAMES), st.just(""), st.just(())),
        ),
        max_size=4,
    ),
    max_leaves=12,
)


class Required(Exception):
    """The twin's error."""


def write(tree: tuple[str | Variable, ...] | list[str | Variable]) -> str:
    return "".join(item if isinstance(item, str) else f"${{{item.name}{item.operator}{write(item.word)}}}" for item in tree)


def twin(tree: tuple[str | Variable, ...] | list[str | Variable], values: Mapping[str, str]) -> str:
    return "".join(item.replace("$$", "$") if isinstance(item, str) else evaluate(item, values) for item in tree)


def evaluate(variable: Variable, values: Mapping[str, str]) -> str:
    word = twin(variable.word, values)
    value = values.get(variable.name)
    given_ = value is not None and not (variable.operator.startswith(":") and value == "")
    kind = variable.operator[-1:]
    if kind == "?" and not given_:
        raise Required
    if kind == "+":
        return word if given_ else ""
    return value or "" if given_ or not kind else word


@given(TREES)
def test_the_twin_agrees(tree: list[str | Variable]) -> None:
    try:
        expected: str | None = twin(tree, VALUES)
    except Required:
        expected = None
    try:
        found: Text | None = interpolate(write(tree), Names(VALUES), Use(blank=True))
    except ComposeError as error:
        # Braces that compose cuts elsewhere are refused, whatever stands in them.
        if "matched differently" in error.why:
            return
        found = None
    assert found == expected


@given(TREES, st.sampled_from(["", "v", "$A}"]) | st.none())
def test_a_host_variable_is_what_the_host_turns_out_to_have(tree: list[str | Variable], value: str | None) -> None:
    """A plan made without the host, resolved with it, is what compose would have made with it."""
    host = {} if value is None else {"A": value}
    try:
        direct: Text | None = interpolate(write(tree), Names({**VALUES, **host} if host else without_a()), Use(blank=True))
    except ComposeError as error:
        if "matched differently" in error.why:
            return
        direct = None
    try:
        planned = interpolate(write(tree), Names(VALUES, frozenset("A")), Use(blank=True))
        later: str | None = resolve(planned, host, no_other)
    except ComposeError:
        later = None
    except KeyError:
        # An unset host variable ends the start of a session where compose would put nothing.
        assert not host or value == ""
        return
    if later is not None and direct is not None:
        assert later == direct


def without_a() -> dict[str, str]:
    return {name: value for name, value in VALUES.items() if name != "A"}


def no_other(part: Part) -> str:
    raise AssertionError(part)


@given(st.text(alphabet="ab $", max_size=30))
def test_text_without_braces_or_names_stays(text: str) -> None:
    if "$" in text.replace("$$", "") and any(pair in text for pair in ("$a", "$b")):
        return
    if text.replace("$$", "").endswith("$"):
        with pytest.raises(ComposeError, match=r"write \$\$ for a dollar"):
            interpolate(text, Names({}), Use())
        return
    assert interpolate(text, Names({}), Use()) == text.replace("$$", "$")


@given(st.text(alphabet="${}AB:-?+ \n", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        interpolate(text, Names(VALUES), Use(blank=True))
    except ComposeError as error:
        assert error.why


def test_values_are_not_interpolated_again() -> None:
    """U05: one un-escaping; what a variable holds is text."""
    assert interpolate("$A ${A} ${X:-$A}", Names({"A": "$B $$ ${C}"}), Use()) == "$B $$ ${C} " * 2 + "$B $$ ${C}"


def test_what_grows_is_bounded() -> None:
    with pytest.raises(ComposeError, match="becomes longer than"):
        interpolate("$A" * 1000, Names({"A": "x" * 10_000}), Use())
    with pytest.raises(ComposeError, match="nested deeper than"):
        interpolate("${A:-" * 50 + "}" * 50, Names({}), Use())
