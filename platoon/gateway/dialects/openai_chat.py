"""Chat Completions: parse, write, stream and errors, without a server.

Streams are synthetic: the whole reply is sampled first and then told as chunks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from platoon.core.call_kinds import CallKind
from platoon.gateway.errors import STATUS, ContextWindowExceededError, GatewayError, InvalidRequestError, UnknownAgentError
from platoon.gateway.requests import ChatRequest, ChatResponse, SamplingOverrides, normalise_tools, template_kwargs

ERROR_CODES: dict[str, tuple[str, str | None]] = {
    "authentication": ("invalid_request_error", "invalid_api_key"),
    "permission": ("permission_error", "permission_denied"),
    "agent_closed": ("invalid_request_error", "agent_closed"),
    "context_length": ("invalid_request_error", "context_length_exceeded"),
    "invalid_request": ("invalid_request_error", None),
    "too_large": ("invalid_request_error", "request_too_large"),
    "timeout": ("timeout", "sample_timeout"),
    "server": ("server_error", None),
}

MOST_INT32 = 2**31 - 1
MOST_INT64 = 2**63 - 1


def parse_request(body: Any, kind: CallKind = "policy") -> ChatRequest:
    """The request of a decoded JSON body. Raises InvalidRequestError naming the field."""
    if not isinstance(body, Mapping):
        raise InvalidRequestError("the body must be a JSON object")
    messages = body.get("messages")
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise InvalidRequestError("messages must be a list with at least one message")
    if not all(isinstance(message, Mapping) for message in messages):
        raise InvalidRequestError("each message must be an object")
    if body.get("n") not in (None, 1):
        raise InvalidRequestError("n must be 1")
    choice = body.get("tool_choice")
    if choice not in (None, "auto", "none"):
        raise InvalidRequestError("tool_choice other than auto or none cannot be enforced")
    tools = () if choice == "none" else normalise_tools(body.get("tools"))
    return ChatRequest(messages, tools, _sampling(body), template_kwargs(body), kind, body.get("logprobs") is True)


def _sampling(body: Mapping[str, Any]) -> SamplingOverrides:
    limit = body.get("max_completion_tokens")
    limit_name = "max_tokens" if limit is None else "max_completion_tokens"
    stop = body.get("stop")
    if isinstance(stop, str):
        stop = [stop]
    if stop is not None and (not isinstance(stop, list) or not all(isinstance(item, str) for item in stop)):
        raise InvalidRequestError("stop must be a text or a list of texts")
    if any(0xD800 <= ord(letter) <= 0xDFFF for item in stop or () for letter in item):
        raise InvalidRequestError("stop must be Unicode text, without lone surrogates")
    top_p = _number(body, "top_p", 0.0, 1.0)
    if top_p == 0.0:
        raise InvalidRequestError("top_p must be a number above 0, at most 1")
    return SamplingOverrides(
        temperature=_number(body, "temperature", 0.0, 2.0),
        top_p=top_p,
        top_k=_whole(body, "top_k", -1, MOST_INT32),
        max_tokens=_whole(body, limit_name, 1, MOST_INT32),
        seed=_whole(body, "seed", 0, MOST_INT64),
        stop=tuple(stop) if stop else None,
    )


def _number(body: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InvalidRequestError(f"{name} must be a number from {low:g} to {high:g}")
    return float(value)


def _whole(body: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidRequestError(f"{name} must be a whole number from {low} to {high}")
    return value


def write_response(reply: ChatResponse) -> dict[str, Any]:
    """The body of a reply that is not streamed."""
    choice: dict[str, Any] = {"index": 0, "message": reply.message(), "finish_reason": reply.finish_reason}
    if reply.logprobs is not None:
        choice["logprobs"] = {"content": list(reply.logprobs)}
    return {**_head(reply, "chat.completion"), "choices": [choice], "usage": reply.usage()}


def write_events(reply: ChatResponse, include_usage: bool = False) -> Iterator[str]:
    """The server-sent events of a streamed reply, `[DONE]` included."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if reply.reasoning:
        deltas.append({"reasoning_content": reply.reasoning})
    if reply.content:
        deltas.append({"content": reply.content})
    deltas += [{"tool_calls": [{"index": index, **call.to_openai()}]} for index, call in enumerate(reply.tool_calls)]
    head = _head(reply, "chat.completion.chunk")
    usage: dict[str, Any] = {"usage": None} if include_usage else {}
    for delta in deltas:
        yield event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}], **usage})
    last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": reply.finish_reason}
    if reply.logprobs is not None:
        last["logprobs"] = {"content": list(reply.logprobs)}
    yield event({**head, "choices": [last], **usage})
    if include_usage:
        yield event({**head, "choices": [], "usage": reply.usage()})
    yield "data: [DONE]\n\n"


def event(value: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


def _head(reply: ChatResponse, kind: str) -> dict[str, Any]:
    return {"id": reply.call_id, "object": kind, "created": 0, "model": reply.model}


def error_status(error: Exception) -> int:
    return STATUS[error.kind if isinstance(error, GatewayError) else "timeout" if isinstance(error, TimeoutError) else "server"]


def write_error(error: Exception) -> dict[str, Any]:
    """The body of an error. What is no gateway error is told by its type and text."""
    if isinstance(error, GatewayError):
        kind, message = error.kind, str(error)
    else:
        kind, message = ("timeout" if isinstance(error, TimeoutError) else "server"), f"{type(error).__name__}: {error}"
    type_, code = ERROR_CODES[kind]
    param = "messages" if isinstance(error, ContextWindowExceededError) else None
    if isinstance(error, UnknownAgentError):
        message = "Incorrect API key provided."
    return {"error": {"message": message, "type": type_, "param": param, "code": code}}
