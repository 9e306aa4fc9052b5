from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platoon.sampling.parsers.hermes import HermesParser, write_call
from platoon.sampling.parsers.plain import PlainParser

pytestmark = pytest.mark.unit
PARSER = HermesParser()
CALL = write_call("bash", {"command": "ls"})


def read(text: str, **kwargs):
    parsed = PARSER.parse(text, **kwargs)
    calls = [(call.name, dict(call.arguments), call.recovered) for call in parsed.tool_calls]
    return parsed.reasoning, parsed.content, calls, [item.raw_text for item in parsed.unparsed]


LS = ("bash", {"command": "ls"}, False)
RECOVERED = ("bash", {"command": "ls"}, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", ("", "plain", [], [])),
        (CALL, ("", "", [LS], [])),
        (f"first\n{CALL}", ("", "first", [LS], [])),
        (f"{CALL}\n{CALL}", ("", "", [LS, LS], [])),
        (f"{CALL} and then", ("", " and then", [LS], [])),
        (f"<think>\nhm\n</think>\n{CALL}", ("hm", "", [LS], [])),
        (f"<think>never closed\n{CALL}", ("never closed", "", [LS], [])),
        ("<think>never closed", ("never closed", "", [], [])),
        ('<tool_call>{"name": "bash", "arguments": {"command": "ls"}}', ("", "", [RECOVERED], [])),
        ('<tool_call>{"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}</tool_call>', ("", "", [RECOVERED], [])),
        ('<tool_call>{"name": "bash", "parameters": {"command": "ls"}}</tool_call>', ("", "", [RECOVERED], [])),
        (
            '<tool_call>{"name": "bash", "arguments": {"command": "a\nb"}}</tool_call>',
            ("", "", [("bash", {"command": "a\nb"}, True)], []),
        ),
        (
            '<tool_call>{"name": "x", "arguments": {"t": "</tool_call>"}}</tool_call>',
            ("", "", [("x", {"t": "</tool_call>"}, False)], []),
        ),
        ("<tool_call>{oops}</tool_call>", ("", "", [], ["<tool_call>{oops}</tool_call>"])),
        ("<tool_call>[1]</tool_call>", ("", "", [], ["<tool_call>[1]</tool_call>"])),
        (
            '<tool_call>{"name": "f", "arguments": [1]}</tool_call>',
            ("", "", [], ['<tool_call>{"name": "f", "arguments": [1]}</tool_call>']),
        ),
        ('<tool_call>{"name": "f", "arguments": {"x": NaN}}</tool_call>x', None),
        ('<tool_call>{"name": "f", "arguments": {"x": 1e999}}</tool_call>x', None),
        ('<tool_call>{"name": "f", "arguments": {"x": "\\ud800"}}</tool_call>x', None),
        ('<tool_call>{"name": "f", "arguments": ' + "[" * 5000 + "</tool_call>x", None),
        ("<tool_call>", ("", "", [], ["<tool_call>"])),
        (f"<tool_call>{CALL}", ("", "", [LS], ["<tool_call>"])),
    ],
)
def test_blocks(text, expected):
    if expected is None:
        expected = ("", "x", [], [text[:-1]])
    assert read(text) == expected


def test_reasoning_opened_by_the_prompt():
    assert read(f"hm\n</think>\n\n{CALL}", in_reasoning=True) == ("hm", "", [LS], [])
    assert PlainParser().parse("hm</think>so", in_reasoning=True).content == "so"


@given(
    st.lists(
        st.sampled_from(
            [
                "<tool_call>",
                "</tool_call>",
                '{"name": "f", "arguments": {}}',
                '{"',
                '"',
                "[",
                "\n",
                "x",
                "<think>",
                "</think>",
                "\\",
            ]
        )
    )
)
@settings(max_examples=300, deadline=None)
def test_never_raises_and_hides_no_block(pieces):
    text = "".join(pieces)
    parsed = PARSER.parse(text)
    body = text.partition("</think>")[2] if text.lstrip().startswith("<think>") else text
    # Every opening tag outside of reasoning is a call, an unparsed block, or text inside one of them.
    if "<tool_call>" in body and not text.lstrip().startswith("<think>"):
        assert parsed.tool_calls or parsed.unparsed


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), values, max_size=4), st.text("abc <>\n", max_size=10))
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read_back(arguments, content):
    text = f"{content}\n{write_call('f', arguments)}" if content else write_call("f", arguments)
    parsed = PARSER.parse(text)
    assert [dict(call.arguments) for call in parsed.tool_calls] == [arguments]
    assert not any(call.recovered for call in parsed.tool_calls) and not parsed.unparsed
    assert parsed.content == content
    assert json.dumps(parsed.tool_calls[0].arguments) == json.dumps(arguments)


@pytest.mark.parametrize(
    "piece", ["<tool_call>", '<tool_call>{"', '<tool_call>["<tool_call>[",', "<tool_call>" + "[" * 50, '<tool_call>{"name": "']
)
def test_work_is_linear_in_degenerate_text(piece):
    """A hundred thousand broken blocks are read in one pass; quadratic work would not end within the test's time limit."""
    text = piece * 100_000
    parsed = PARSER.parse(text)
    assert sum(len(item.raw_text) for item in parsed.unparsed) + len(parsed.content) == len(text)
