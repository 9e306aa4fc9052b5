from __future__ import annotations

import json

import pytest

from platoon.core.trajectory import plain
from platoon.gateway.dialects import openai_chat
from platoon.gateway.errors import (
    AgentClosedError,
    CallKindRefusedError,
    ContextWindowExceededError,
    InvalidRequestError,
    SampleTimeoutError,
    UnknownAgentError,
)
from platoon.gateway.requests import MAX_NESTING, ChatRequest, ChatResponse, ToolCallOut, normalise_tools

pytestmark = pytest.mark.unit
MESSAGES = [{"role": "user", "content": "x"}]
SCHEMA = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ({"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}),
        ({"function": {"name": "f"}, "type": "function"}, {"function": {"name": "f", "parameters": SCHEMA}, "type": "function"}),
        ({"name": "f", "description": None, "strict": True}, {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}),
        (
            {"type": "function", "function": {"parameters": {"a": 1}, "description": "d", "name": "f"}, "cache_control": 1},
            {"type": "function", "function": {"parameters": {"a": 1}, "description": "d", "name": "f"}},
        ),
        ({"type": "web_search", "name": "web"}, {"type": "function", "function": {"name": "web", "parameters": SCHEMA}}),
    ],
)
def test_tools_are_normalised_in_their_own_order(tool, expected):
    assert json.dumps(normalise_tools([tool])) == json.dumps([expected])


@pytest.mark.parametrize("tools", ["x", {"a": 1}, [3], [{}], [{"function": {"name": 3}}]])
def test_tools_that_name_no_function(tools):
    with pytest.raises(InvalidRequestError):
        normalise_tools(tools)


@pytest.mark.parametrize(
    "change",
    [
        {"messages": []},
        {"messages": "x"},
        {"messages": [3]},
        {"n": 2},
        {"tool_choice": "required"},
        {"temperature": 2.5},
        {"temperature": True},
        {"top_p": "x"},
        {"top_p": 0},
        {"top_k": 2**31},
        {"top_k": 2**70},
        {"top_k": -2},
        {"max_tokens": 2**31},
        {"seed": 2**63},
        {"stop": "\ud800"},
        {"max_tokens": 0},
        {"max_completion_tokens": 1.5},
        {"seed": -1},
        {"stop": [1]},
        {"chat_template_kwargs": 3},
    ],
)
def test_requests_that_are_refused(change):
    with pytest.raises(InvalidRequestError):
        openai_chat.parse_request({"messages": MESSAGES, **change})


def nested(levels: int, kind: str) -> object:
    """A value of `levels` containers, one in the other."""
    text = "[" * levels + "]" * levels if kind == "list" else '{"a": ' * levels + "1" + "}" * levels
    return json.loads(text)


@pytest.mark.parametrize("kind", ["list", "object"])
def test_requests_nested_too_deep_are_refused_with_400(kind: str):
    # The body, its messages and the message are three of the levels.
    def body(levels: int) -> dict[str, object]:
        return {"messages": [{"role": "user", "content": nested(levels, kind)}]}

    assert plain(openai_chat.parse_request(body(MAX_NESTING - 3)).messages) == body(MAX_NESTING - 3)["messages"]
    for levels in (MAX_NESTING - 2, 900):
        with pytest.raises(InvalidRequestError, match="deeper than 64") as caught:
            openai_chat.parse_request(body(levels))
        assert openai_chat.error_status(caught.value) == 400
    with pytest.raises(InvalidRequestError, match="deeper than 64"):
        openai_chat.parse_request({"messages": MESSAGES, "tools": [{"name": "f", "parameters": nested(900, kind)}]})
    for request in ({"messages": body(900)["messages"]}, {"messages": MESSAGES, "template_kwargs": {"a": nested(900, kind)}}):
        with pytest.raises(InvalidRequestError, match="deeper than 64"):
            ChatRequest(**request)


def test_a_request_in_full():
    body = {
        "messages": MESSAGES,
        "tools": [{"name": "f"}],
        "max_completion_tokens": 5,
        "max_tokens": 9,
        "temperature": 0,
        "top_k": 3,
        "stop": "x",
        "extra_body": {"chat_template_kwargs": {"enable_thinking": True, "other": 1}},
        "chat_template_kwargs": {"preserve_thinking": True},
        "reasoning_effort": "none",
    }
    request = openai_chat.parse_request(body, "aux")
    assert (request.sampling.max_tokens, request.sampling.temperature, request.sampling.top_k) == (5, 0.0, 3)
    assert request.sampling.stop == ("x",) and request.kind == "aux" and len(request.tools) == 1
    assert request.template_kwargs == {"enable_thinking": False, "preserve_thinking": True}
    assert openai_chat.parse_request({**body, "tool_choice": "none"}).tools == ()


REPLY = ChatResponse("id", "m", "c", "r", (ToolCallOut("t", "f", "{}"),), "tool_calls", 3, 2)


def test_the_body_of_a_reply():
    body = openai_chat.write_response(REPLY)
    choice = body["choices"][0]
    assert choice["message"] == {
        "role": "assistant",
        "content": "c",
        "reasoning_content": "r",
        "tool_calls": [{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    assert (choice["finish_reason"], body["usage"]["total_tokens"], body["object"]) == ("tool_calls", 5, "chat.completion")


def test_a_stream_tells_the_same():
    events = [event.removeprefix("data: ").strip() for event in openai_chat.write_events(REPLY, include_usage=True)]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    told: dict = {}
    for chunk in chunks[:-1]:
        told.update(chunk["choices"][0]["delta"])
        assert chunk["usage"] is None
    assert (told["content"], told["reasoning_content"], told["tool_calls"][0]["function"]["name"]) == ("c", "r", "f")
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["prompt_tokens"] == 3


@pytest.mark.parametrize(
    ("error", "status", "type_", "code"),
    [
        (UnknownAgentError(), 401, "invalid_request_error", "invalid_api_key"),
        (CallKindRefusedError("x"), 403, "permission_error", "permission_denied"),
        (AgentClosedError("x"), 410, "invalid_request_error", "agent_closed"),
        (ContextWindowExceededError(10, 12), 400, "invalid_request_error", "context_length_exceeded"),
        (InvalidRequestError("x"), 400, "invalid_request_error", None),
        (SampleTimeoutError("x"), 504, "timeout", "sample_timeout"),
        (ValueError("x"), 500, "server_error", None),
    ],
)
def test_errors_by_kind(error, status, type_, code):
    told = openai_chat.write_error(error)["error"]
    assert (openai_chat.error_status(error), told["type"], told["code"]) == (status, type_, code)
    if status == 500:
        assert told["message"] == "ValueError: x"
    if code == "context_length_exceeded":
        assert told["param"] == "messages" and "10 tokens" in told["message"] and "12 tokens" in told["message"]
