"""What a parser of replies gives back, and the form every parser has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class ParsedToolCall:
    """recovered: the block was not quite well-formed, but could be read in one way only."""

    name: str
    arguments: Mapping[str, Any]
    id: str | None = None
    recovered: bool = False


@dataclass(frozen=True)
class UnparsedCall:
    """A call block that could not be read: its text as sampled, and why."""

    raw_text: str
    error: str


@dataclass(frozen=True)
class ParseResult:
    content: str
    reasoning: str = ""
    tool_calls: tuple[ParsedToolCall, ...] = ()
    unparsed: tuple[UnparsedCall, ...] = ()


class ReplyParser(Protocol):
    """name: as configurations spell it."""

    @property
    def name(self) -> str: ...

    def parse(self, text: str, *, tools: Sequence[Mapping[str, Any]] = (), in_reasoning: bool = False) -> ParseResult:
        """Never raises on `text`, takes time linear in it, and drops no call block silently.

        in_reasoning: the prompt already opened the reasoning.
        """
        ...
