"""The dialect-neutral request and reply of a model call, and the normaliser of tools that every dialect shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from platoon.core.call_kinds import CallKind
from platoon.gateway.errors import InvalidRequestError

EMPTY_SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {}}
MAX_NESTING = 64
FORWARDED_KWARGS = ("enable_thinking", "preserve_thinking")


@dataclass(frozen=True)
class SamplingOverrides:
    """What a call itself asks for; None leaves it to the agent's and the gateway's defaults."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ChatRequest:
    """One call, of a harness in this process or of a client. characters: of all its texts, an upper bound of what it renders from.

    Raises InvalidRequestError for messages, tools or template settings that nest deeper than `MAX_NESTING`.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    sampling: SamplingOverrides = field(default_factory=SamplingOverrides)
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    kind: CallKind = "policy"
    logprobs: bool = False
    characters: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        body = {"messages": self.messages, "tools": self.tools, "chat_template_kwargs": self.template_kwargs}
        object.__setattr__(self, "characters", count_characters(body))


@dataclass(frozen=True)
class ToolCallOut:
    """A call as clients get it: arguments are JSON text."""

    id: str
    name: str
    arguments: str

    def to_openai(self) -> dict[str, Any]:
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True)
class ChatResponse:
    """One reply. content: with the raw text of call blocks that could not be read, so nothing sampled is hidden.

    tool_calls: only of a clean reply that was not cut off. version, policy: what sampled it; -1 for an unsampled budget stop.
    """

    call_id: str
    model: str
    content: str
    reasoning: str = ""
    tool_calls: tuple[ToolCallOut, ...] = ()
    finish_reason: Literal["stop", "length", "tool_calls"] = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    policy: str = "main"
    version: int = -1
    logprobs: Sequence[Mapping[str, Any]] | None = None

    def message(self) -> dict[str, Any]:
        """The assistant message, as a client would send it back."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content or None if self.tool_calls else self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [call.to_openai() for call in self.tool_calls]
        return message

    def usage(self) -> dict[str, int]:
        total = self.prompt_tokens + self.completion_tokens
        return {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens, "total_tokens": total}


def count_characters(body: Any) -> int:
    """The length of all texts in a JSON value, keys included.

    Raises InvalidRequestError when lists and objects nest deeper than `MAX_NESTING`: what is accepted is stored and rendered by
    recursion.
    """
    level, characters = [body], 0
    for _ in range(MAX_NESTING + 1):
        characters += sum(len(value) for value in level if isinstance(value, str))
        containers = [value for value in level if isinstance(value, list | tuple | Mapping)]
        if not containers:
            return characters
        characters += sum(len(key) for value in containers if isinstance(value, Mapping) for key in value if isinstance(key, str))
        level = [item for value in containers for item in (value.values() if isinstance(value, Mapping) else value)]
    raise InvalidRequestError(f"the body nests lists and objects deeper than {MAX_NESTING} levels")


def normalise_tools(tools: Any) -> tuple[Mapping[str, Any], ...]:
    """Entries as `{type, function: {name, description?, parameters}}`. The order of keys is kept: templates write tools as JSON.

    Raises InvalidRequestError for what is no list, or an entry that names no function.
    """
    if tools is None:
        return ()
    if not isinstance(tools, Sequence) or isinstance(tools, str):
        raise InvalidRequestError("tools must be a list")
    return tuple(_tool(index, tool) for index, tool in enumerate(tools))


def _tool(index: int, tool: Any) -> Mapping[str, Any]:
    if not isinstance(tool, Mapping):
        raise InvalidRequestError(f"tools[{index}] must be an object")
    stated = tool.get("function", tool)
    if not isinstance(stated, Mapping) or not isinstance(stated.get("name"), str):
        raise InvalidRequestError(f"tools[{index}] names no function")
    function = {key: item for key, item in stated.items() if key in ("name", "description", "parameters") and item is not None}
    function.setdefault("parameters", dict(EMPTY_SCHEMA))
    keys = list(tool)
    function_first = "type" in keys and "function" in keys and keys.index("function") < keys.index("type")
    return {"function": function, "type": "function"} if function_first else {"type": "function", "function": function}


def template_kwargs(body: Mapping[str, Any]) -> dict[str, Any]:
    """`extra_body.chat_template_kwargs` overlaid by `chat_template_kwargs`; `reasoning_effort: none` turns thinking off."""
    merged: dict[str, Any] = {}
    extra = body.get("extra_body")
    for source in (extra.get("chat_template_kwargs") if isinstance(extra, Mapping) else None, body.get("chat_template_kwargs")):
        if source is None:
            continue
        if not isinstance(source, Mapping):
            raise InvalidRequestError("chat_template_kwargs must be an object")
        merged.update({key: source[key] for key in FORWARDED_KWARGS if key in source})
    if body.get("reasoning_effort") == "none":
        merged["enable_thinking"] = False
    return merged
