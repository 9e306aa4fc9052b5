"""One sequence being sampled: its prompt, its limits, what has been drawn, and when it ends. Pure Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class DrawSettings:
    """How one sequence is drawn. temperature 0 takes the likeliest token; top_k <= 0 and top_p >= 1 cut nothing."""

    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0

    @property
    def restricts(self) -> bool:
        return self.top_k > 0 or self.top_p < 1.0


@dataclass(frozen=True)
class StopRule:
    """What ends a sequence besides its limit: a token id, or a string in the decoded text."""

    token_ids: frozenset[int] = frozenset()
    strings: tuple[str, ...] = ()
    decode: Callable[[list[int]], str] | None = None

    def ends(self, tokens: list[int]) -> bool:
        """Whether the newest token completes a stop. Tokens are at least one character, so a short tail holds any new match."""
        if tokens[-1] in self.token_ids:
            return True
        if not self.strings or self.decode is None:
            return False
        longest = max(len(text.encode()) for text in self.strings)
        tail = self.decode(tokens[-(longest + 4) :])
        return any(text in tail for text in self.strings)


@dataclass(eq=False)
class Sequence:
    """A sequence of a sample request. `request` is the owner's handle; `limit` is the most tokens drawn, at least 1.

    `error` is why it ended without all its tokens.
    """

    prompt: tuple[int, ...]
    limit: int
    settings: DrawSettings
    stop: StopRule
    random: random.Random
    request: Any = None
    top_logprobs: int = 0
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    alternatives: list[tuple[list[int], list[float]]] = field(default_factory=list)
    stopped: bool = False
    error: Exception | None = None

    def extend(self, token: int, logprob: float) -> bool:
        """Takes a drawn token; True when the sequence ends with it."""
        self.tokens.append(token)
        self.logprobs.append(logprob)
        self.stopped = self.stop.ends(self.tokens)
        return self.stopped or len(self.tokens) >= self.limit

    @classmethod
    def probe(cls, prompt: tuple[int, ...], limit: int) -> Self:
        """A sequence without stops whose numbers follow from its prompt; for checks."""
        return cls(prompt, limit, DrawSettings(), StopRule(), random.Random(repr(prompt)))  # noqa: S311  because draws are no secrets
