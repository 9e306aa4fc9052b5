"""`none`: reasoning is split off, everything else is content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from platoon.sampling.parsers.reasoning import THINK_TAGS, ReasoningTags, split_reasoning
from platoon.sampling.parsers.result import ParseResult


@dataclass(frozen=True)
class PlainParser:
    tags: ReasoningTags | None = THINK_TAGS
    name: str = "none"

    def parse(self, text: str, *, tools: Sequence[Mapping[str, Any]] = (), in_reasoning: bool = False) -> ParseResult:
        reasoning, rest = split_reasoning(text, self.tags, in_reasoning)
        return ParseResult(rest, reasoning)
