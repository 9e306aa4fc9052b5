"""`hermes`: calls are JSON objects `{"name": ..., "arguments": {...}}` between `<tool_call>` and `</tool_call>`.

The JSON decides where a call ends, so a string may hold the closing tag. Read with leniency, and marked so: a missing closing tag,
raw line breaks in strings, arguments given as JSON text, `parameters` for `arguments`, no arguments at all, further keys. Every
other block is unparsed, from its opening tag up to its closing tag or the next opening one. Time is linear in the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from platoon.sampling.parsers.call_json import CallJsonError, CallJsonReader, check_encodable
from platoon.sampling.parsers.reasoning import THINK_TAGS, ReasoningTags, split_reasoning
from platoon.sampling.parsers.result import ParsedToolCall, ParseResult, UnparsedCall

OPENING, CLOSING = "<tool_call>", "</tool_call>"
WHITESPACE = " \t\n\r"


@dataclass(frozen=True)
class HermesParser:
    tags: ReasoningTags | None = THINK_TAGS
    name: str = "hermes"

    def parse(self, text: str, *, tools: Sequence[Mapping[str, Any]] = (), in_reasoning: bool = False) -> ParseResult:
        reasoning, rest = split_reasoning(text, self.tags, in_reasoning, OPENING)
        scan = _Scan(rest)
        scan.run()
        return ParseResult(scan.content(), reasoning, tuple(scan.calls), tuple(scan.unparsed))


class _Scan:
    """One pass over the text after the reasoning."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.calls: list[ParsedToolCall] = []
        self.unparsed: list[UnparsedCall] = []
        self._outside: list[str] = []
        self._reader = CallJsonReader(text)
        self._next_closing = -1

    def run(self) -> None:
        position = 0
        while (opening := self.text.find(OPENING, position)) >= 0:
            self._outside.append(self.text[position:opening])
            position = self._block(opening)
        self._outside.append(self.text[position:])

    def content(self) -> str:
        """What stands outside of call blocks. The line break that parts content from the first call belongs to neither."""
        before = self._outside[0]
        if len(self._outside) > 1:
            before = before.removesuffix("\n")
        after = [part for part in self._outside[1:] if part.strip()]
        return "".join([before, *after])

    def _block(self, opening: int) -> int:
        """Reads the block at `opening`; returns where it ends."""
        start = self._skip_whitespace(opening + len(OPENING))
        try:
            value, end, recovered = self._reader.decode(start)
            call = call_from_value(value, recovered)
        except CallJsonError as error:
            end = self._unparsed_end(opening + len(OPENING))
            self.unparsed.append(UnparsedCall(self.text[opening:end], str(error)))
            return end
        closing = self._skip_whitespace(end)
        if self.text.startswith(CLOSING, closing):
            self.calls.append(call)
            return closing + len(CLOSING)
        self.calls.append(ParsedToolCall(call.name, call.arguments, call.id, recovered=True))
        return end

    def _unparsed_end(self, start: int) -> int:
        closing = self._closing_after(start)
        limit = closing + len(CLOSING) if closing >= 0 else len(self.text)
        opening = self.text.find(OPENING, start, limit)
        return opening if opening >= 0 else limit

    def _closing_after(self, start: int) -> int:
        """The next closing tag, remembered: a text without one is searched once, not once a block."""
        if self._next_closing != len(self.text) and self._next_closing < start:
            found = self.text.find(CLOSING, start)
            self._next_closing = found if found >= 0 else len(self.text)
        return -1 if self._next_closing == len(self.text) else self._next_closing

    def _skip_whitespace(self, position: int) -> int:
        while position < len(self.text) and self.text[position] in WHITESPACE:
            position += 1
        return position


def call_from_value(value: Any, recovered: bool) -> ParsedToolCall:
    """The call a decoded object states. Raises CallJsonError for an object that states none."""
    if not isinstance(value, dict):
        raise CallJsonError("a call must be a JSON object")
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise CallJsonError("a call needs a name")
    key = "arguments" if "arguments" in value or "parameters" not in value else "parameters"
    arguments = value.get(key, {})
    recovered = recovered or key != "arguments" or set(value) != {"name", "arguments"}
    if isinstance(arguments, str):
        recovered, arguments = True, arguments_from_text(arguments)
    elif arguments is None:
        arguments, recovered = {}, True
    if not isinstance(arguments, dict):
        raise CallJsonError("arguments must be a JSON object")
    check_encodable([name, arguments])
    return ParsedToolCall(name, arguments, recovered=recovered)


def arguments_from_text(text: str) -> Any:
    """The value of arguments given as JSON text, {} for blank text. Raises CallJsonError."""
    text = text.strip()
    if not text:
        return {}
    value, end, _ = CallJsonReader(text).decode(0)
    if end != len(text):
        raise CallJsonError("arguments are text that goes on after its JSON")
    return value


def write_call(name: str, arguments: Mapping[str, Any]) -> str:
    """A well-formed block, as templates of this format write it."""
    body = json.dumps({"name": name, "arguments": dict(arguments)}, ensure_ascii=False)
    return f"{OPENING}\n{body}\n{CLOSING}"
