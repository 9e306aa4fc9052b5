"""Brings messages into the form that chat templates read, without changing a character that a model wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from platoon.artifacts.reading import parse_json
from platoon.sampling.renderer import RenderError

ROLES = frozenset({"system", "user", "assistant", "tool"})
TEXT_PARTS = frozenset({"text", "input_text", "output_text"})


def clean_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Parts joined, thinking parts as `<think>` blocks, call arguments as mappings. Raises RenderError naming the message."""
    return [_clean(index, message) for index, message in enumerate(messages)]


def _clean(index: int, message: Mapping[str, Any]) -> dict[str, Any]:
    role = message.get("role")
    if role == "developer":
        role = "system"
    if role not in ROLES:
        raise RenderError(f"messages[{index}].role: {role!r} is none of {', '.join(sorted(ROLES))}")
    cleaned = {key: item for key, item in message.items() if item is not None and key != "tool_calls"}
    cleaned["role"] = role
    cleaned["content"] = _text(index, message.get("content"))
    if calls := message.get("tool_calls"):
        if not isinstance(calls, Sequence) or isinstance(calls, str):
            raise RenderError(f"messages[{index}].tool_calls: must be a list")
        cleaned["tool_calls"] = [_call(index, call) for call in calls]
    return cleaned


def _text(index: int, content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise RenderError(f"messages[{index}].content: must be text or a list of parts")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "thinking":
            texts.append(f"<think>\n{part.get('thinking', '')}\n</think>\n")
        elif kind in TEXT_PARTS and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            raise RenderError(f"messages[{index}].content: only text parts can be rendered, got {kind!r}")
    return "".join(texts)


def _call(index: int, call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RenderError(f"messages[{index}].tool_calls: each needs a function with a name")
    arguments = function.get("arguments")
    if arguments is None or arguments == "":
        arguments = {}
    if isinstance(arguments, str):
        try:
            arguments = parse_json(arguments)
        except ValueError as error:
            raise RenderError(f"messages[{index}].tool_calls: arguments of {function['name']} are no JSON: {error}") from None
    return {**call, "type": "function", "function": {**function, "arguments": arguments}}
