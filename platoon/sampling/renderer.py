"""What turns messages into prompt tokens and sampled tokens into a reply.

A renderer is a pure function of its construction: the same request always gives the same tokens, whatever was rendered before.
Parsing never raises on what a model wrote, and hides no part of it: text that looks like a tool call and is none is unparsed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from platoon.sampling.parsers.result import ParsedToolCall, UnparsedCall
from platoon.sampling.sampler import StopReason

TokenArray = npt.NDArray[np.uint32]


class RenderError(ValueError):
    """A request that the template cannot render; the fault of who asks, not of the service."""


@dataclass(frozen=True)
class RenderRequest:
    """messages, tools: Chat Completions form; the order of keys is tokens, so both are rendered as given.

    template_kwargs: `enable_thinking`, `preserve_thinking` and the like.
    continues_T: prompt and completion of an earlier call. Where the rendered text begins with exactly their text, these tokens are
        kept as they are and only the rest is encoded: a sampled reply may be split into other tokens than the encoder would choose.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    continues_T: TokenArray | None = None


@dataclass(frozen=True)
class ParsedReply:
    """clean: the model ended the reply itself. unparsed: call blocks that could not be read, with their raw text."""

    content: str
    reasoning: str = ""
    tool_calls: tuple[ParsedToolCall, ...] = ()
    unparsed: tuple[UnparsedCall, ...] = ()
    clean: bool = True


class Renderer(Protocol):
    """stop_tokens: what ends a reply; the service returns it as the last sampled token."""

    stop_tokens: tuple[int, ...]

    def render(self, request: RenderRequest) -> TokenArray:
        """uint32 tokens of the prompt, shape (T,). Raises RenderError for a request the template refuses.

        Called from several threads at once.
        """
        ...

    def parse(
        self, tokens_T: TokenArray, request: RenderRequest, stop_reason: StopReason, prompt_T: TokenArray | None = None
    ) -> ParsedReply:
        """The reply in sampled tokens. prompt_T: the rendered prompt, which tells whether the reply begins inside reasoning."""
        ...

    def decode(self, tokens_T: TokenArray) -> str:
        """The text of tokens, special tokens included."""
        ...

    def render_conversation(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> tuple[TokenArray, npt.NDArray[np.bool_]]:
        """tokens_T uint32 and trained_T bool, both (T,): True on each assistant turn as the policy would have sampled it, end token
        included. Raises RenderError when the template does not keep a turn as it was sampled."""
        ...
