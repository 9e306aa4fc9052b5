"""Which parser reads what a template writes: chosen by name, or found with a probe turn.

The probe is one assistant turn of reasoning, text and three calls, rendered through the template and cut at its stop token. A
parser fits when it reads the turn back exactly, with nothing recovered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from platoon.errors import ConfigError, Problem
from platoon.sampling.parsers.hermes import HermesParser
from platoon.sampling.parsers.plain import PlainParser
from platoon.sampling.parsers.reasoning import ReasoningTags
from platoon.sampling.parsers.result import ParseResult, ReplyParser

log = logging.getLogger(__name__)

PARSERS: dict[str, Callable[[ReasoningTags | None], ReplyParser]] = {"hermes": HermesParser, "none": PlainParser}
ALIASES = {"qwen": "hermes", "qwen25": "hermes"}

PROBE_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("probe_text", {"path": "a/b.py", "body": "def f(x):\n    return x\n\n  # indented"}),
    ("probe_values", {"count": 3, "looks_like_a_number": "12", "looks_like_a_truth": "true", "items": ["a", 1, False], "on": True}),
    ("probe_nothing", {}),
)
PROBE_TEXT, PROBE_REASONING = "I look first.", "First the file, then the numbers."


def probe_tools() -> list[dict[str, Any]]:
    kinds = {str: "string", int: "integer", bool: "boolean", list: "array"}
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": "A probe.",
                "parameters": {
                    "type": "object",
                    "properties": {key: {"type": kinds[type(item)]} for key, item in arguments.items()},
                },
            },
        }
        for name, arguments in PROBE_CALLS
    ]


def probe_turn(reasoning: bool) -> dict[str, Any]:
    calls = [
        {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for index, (name, arguments) in enumerate(PROBE_CALLS)
    ]
    turn = {"role": "assistant", "content": PROBE_TEXT, "tool_calls": calls}
    return {**turn, "reasoning_content": PROBE_REASONING} if reasoning else turn


def mismatch(parsed: ParseResult, reasoning: bool) -> str | None:
    """What of the probe a parser read otherwise, None when it read it exactly."""
    calls = [(call.name, dict(call.arguments)) for call in parsed.tool_calls]
    if calls != [(name, dict(arguments)) for name, arguments in PROBE_CALLS]:
        return f"read the calls {calls!r}"
    if any(call.recovered for call in parsed.tool_calls) or parsed.unparsed:
        return "found the calls malformed"
    if parsed.content.strip() != PROBE_TEXT:
        return f"read the content {parsed.content!r}"
    if reasoning and parsed.reasoning != PROBE_REASONING:
        return f"read the reasoning {parsed.reasoning!r}"
    return None


def choose_parser(
    setting: str,
    tags: ReasoningTags | None,
    render_probe: Callable[[bool], tuple[str, bool] | None],
    renders_tools: bool,
    where: str,
) -> ReplyParser:
    """The parser of `tool_call_parser: <setting>`.

    render_probe(reasoning): (reply text, begins in reasoning) of the probe turn as the policy would sample it, None when the
    template cannot write one. where: names the model in messages. Raises ConfigError when nothing named or found reads the
    template.
    """
    name = ALIASES.get(setting, setting)
    if name != "auto":
        if name not in PARSERS:
            rule = f"{setting!r} is none of auto, {', '.join(sorted(PARSERS))}"
            raise ConfigError(Problem(rule, key="renderer_kwargs.tool_call_parser"))
        return PARSERS[name](tags)
    if not renders_tools:
        log.warning("%s: the chat template renders no tools, so replies are read without tool calls", where)
        return PlainParser(tags)
    tried: Mapping[str, str] = {}
    for candidate, make in PARSERS.items():
        if candidate == "none":
            continue
        parser = make(tags)
        for reasoning in (True, False) if tags else (False,):
            probe = render_probe(reasoning)
            if probe is None:
                continue
            found = mismatch(parser.parse(probe[0], tools=probe_tools(), in_reasoning=probe[1]), reasoning)
            if found is None:
                return parser
            tried = {**tried, candidate: found}
    told = "; ".join(f"{candidate} {found}" for candidate, found in tried.items()) or "the template writes no probe turn"
    rule = f"no tool-call parser reads what the chat template of {where} writes: {told}"
    raise ConfigError(Problem(rule, key="renderer_kwargs.tool_call_parser", advice="name a parser, or `none`"))
