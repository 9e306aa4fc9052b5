"""The grammar of env files, by the table of U07 and its neighbours; every error names file and line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.envs.harbor.compose.env_file import parse_env_file
from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.interpolate import Budget
from tests.envs.harbor.compose.test_interpolate import Names

pytestmark = pytest.mark.unit

SCOPE = Names({"HOME": "/h", "EMPTY": ""})


def parse(text: str, *, raw: bool = False) -> dict[str, object]:
    return dict(parse_env_file(text, "e.env", SCOPE, raw=raw, service={}, before={}, budget=Budget()))


# What compose 2.40 reads, but for what it reads by accident.
TABLE = [
    ('K="foo\nbar"\n', {"K": "foo\nbar"}),
    ("k='a#\"#b'#c\n", {"k": 'a#"#b'}),
    ("X=-Xmx1 -DA=B\n", {"X": "-Xmx1 -DA=B"}),
    ("A=b # c\n", {"A": "b"}),
    ("A=b#c\n", {"A": "b#c"}),
    ('A="b" # c\n', {"A": "b"}),
    ("A= b \n", {"A": "b"}),
    ("A=\n", {"A": ""}),
    ("HOME\n", {"HOME": "/h"}),
    ("NOBODY\n", {"NOBODY": None}),
    ("export A=1\n", {"A": "1"}),
    ("A: 1\n", {"A": "1"}),
    ("A = b\n", {"A": "b"}),
    ("A=${B:-x}\n", {"A": "x"}),
    ("B=1\nA=$B\n", {"B": "1", "A": "1"}),
    ("A=$B\nB=1\n", {"A": "", "B": "1"}),
    ("HOME=mine\nA=$HOME\n", {"HOME": "mine", "A": "/h"}),
    ("A='$HOME'\n", {"A": "$HOME"}),
    ("A=\\n\n", {"A": "\\n"}),
    ('A="\\n\\t\\r\\"\\\\x\\a\\b\\f\\v\\e"\n', {"A": '\n\t\r"\\x\a\b\f\v\\e'}),
    ("A='it\\'s'\n", {"A": "it's"}),
    ("A.B-C=1\n", {"A.B-C": "1"}),
    ("# only\n\n \n", {}),
    ("A=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
    ("\ufeffA=1\n", {"A": "1"}),
    ("A=$$x\n", {"A": "$x"}),
    ('A="a\\$b"\n', {"A": "a$b"}),
    ('A="\\${HOME}"\n', {"A": "${HOME}"}),
    ("A=a'b'c\n", {"A": "a'b'c"}),
    ("A=#x\n", {"A": "#x"}),
    ("A=1\nA=2\n", {"A": "2"}),
    ('A="x\n# y\nz"\n', {"A": "x\n# y\nz"}),
    ('A={"x": 1}\n', {"A": '{"x": 1}'}),
    ("A=1;B=2\n", {"A": "1;B=2"}),
    ("A=$(date)\n", {"A": "$(date)"}),
    ("A=x", {"A": "x"}),
]
REFUSED = [
    ('A=1\nB="open\n', "e.env:2: the quote it opens has no end"),
    ('A="b" c\n', "e.env:1: only a comment may follow a closing quote"),
    ("=x\n", "e.env:1: a line is NAME=value"),
    ("A B=c\n", "e.env:1: a line is NAME=value"),
    ("A\nnot a line\n", "e.env:2: a line is NAME=value"),
    ("A=${X\n", r"e.env:1: .*open brace"),
    ("A=cost$\n", "e.env:1: ends in a"),
    ("\n\nA=${B:?need it}\n", "e.env:3: B is required: need it"),
    ('A="\\0"\n', "e.env:1: the escape"),
    ("A/B=1\n", "e.env:1: a line is NAME=value"),
]


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_u07_what_compose_reads(text: str, expected: dict[str, object]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_u07_errors_name_file_and_line(text: str, why: str) -> None:
    with pytest.raises(ComposeError, match=why):
        parse(text)


def test_raw_lines_stay_as_they_are() -> None:
    assert parse('A="x" # y\nB=$$z\nC= \nHOME\n', raw=True) == {"A": '"x" # y', "B": "$$z", "C": " ", "HOME": "/h"}
    with pytest.raises(ComposeError, match=r"e\.env:1: a line is NAME=value, without blanks"):
        parse("export A=1\n", raw=True)


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,5}", fullmatch=True), st.text(max_size=20)))
def test_any_value_survives_single_quotes(values: dict[str, str]) -> None:
    """U26: values of several lines and with any character but what ends the form pass whole."""
    kept = {name: value for name, value in values.items() if "\\" not in value and "\r" not in value and "\ufeff" not in value}
    text = "".join(f"{name}='{value.replace(chr(39), chr(92) + chr(39))}'\n" for name, value in kept.items())
    assert parse(text) == kept


@given(st.text(alphabet="AB=:'\"\\$#{} \n\texport", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except ComposeError as error:
        assert error.why.startswith("e.env:")
