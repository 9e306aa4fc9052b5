"""Adapts the renderers of tinker-cookbook (0.5.8 and 0.6), imported only when a config names one: they bring torch.

Tool specs are merged into the first system message, as the cookbook's own tools do. Whether a reply is clean is asked of
`ParseTermination.is_clean`: every member of that enum is a non-empty text, so its truth says nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from platoon.config.model import nearest
from platoon.config.text import printable, quoted, short_path
from platoon.errors import ConfigError, Problem
from platoon.sampling.model_spec import ModelSpec
from platoon.sampling.parsers.result import ParsedToolCall, UnparsedCall
from platoon.sampling.renderer import ParsedReply, RenderError, RenderRequest, TokenArray
from platoon.sampling.renderers.chat_template import CHAT_TEMPLATE
from platoon.sampling.renderers.messages import clean_messages
from platoon.sampling.sampler import StopReason


def refuse_unknown(name: str) -> None:
    """Raises ConfigError for a renderer that the cookbook does not have, and without the cookbook. Needs no tokenizer."""
    try:
        from tinker_cookbook import renderers
        from tinker_cookbook.exceptions import RendererError
    except ImportError as error:
        rule = f"{quoted(name)} is a renderer of tinker-cookbook, which is not installed: {error}"
        raise ConfigError(Problem(rule, key="renderer_name", advice="install platoon[tinker], or use chat_template")) from error
    nothing: Any = None
    try:
        renderers.get_renderer(name, nothing)
    except RendererError as error:
        if str(error).startswith("Unknown renderer"):
            # The one list that the cookbook keeps of its own.
            known = re.findall(r'``"(\w+)"``', renderers.get_renderer.__doc__ or "")
            advice = nearest(name, {CHAT_TEMPLATE, *known, *renderers.get_registered_renderer_names()})
            raise ConfigError(Problem(f"no renderer is called {quoted(name)}", key="renderer_name", advice=advice)) from error
    except Exception:  # noqa: S110  because a renderer that there is misses its tokenizer, each in a way of its own
        pass


class CookbookRenderer:
    """inner: a cookbook renderer over a Hugging Face tokenizer."""

    def __init__(self, inner: Any, tokenizer: Any) -> None:
        self._inner = inner
        self._tokenizer = tokenizer
        stops = inner.get_stop_sequences()
        if not all(isinstance(stop, int) for stop in stops):
            raise ConfigError(Problem("only renderers that stop at tokens are supported", key="renderer_name"))
        self.stop_tokens = tuple(stops)

    @classmethod
    def build(cls, spec: ModelSpec, tokenizer: str) -> CookbookRenderer:
        """tokenizer: a directory or a model name. Raises ConfigError for an unknown name or setting, or a missing package."""
        refuse_unknown(spec.renderer_name)
        from tinker_cookbook import renderers, tokenizer_utils

        try:
            loaded = tokenizer_utils.get_tokenizer(tokenizer)
            inner = renderers.get_renderer(spec.renderer_name, loaded, model_name=spec.model_name)
        except Exception as error:  # because the cookbook and transformers raise many classes for a wrong model
            reason = str(error).replace(spec.renderer_name, short_path(spec.renderer_name))
            advice = "chat_template renders with the model's own template"
            raise ConfigError(
                Problem(f"{quoted(spec.renderer_name)} cannot be built: {reason}", key="renderer_name", advice=advice)
            ) from error
        for name, value in spec.renderer_kwargs.items():
            if not hasattr(inner, name):
                rule = f"renderer {short_path(spec.renderer_name)} has no such setting"
                known = [setting for setting in vars(inner) if not setting.startswith("_")]
                raise ConfigError(Problem(rule, key=f"renderer_kwargs.{printable(name)}", advice=nearest(name, known)))
            setattr(inner, name, value)
        return cls(inner, loaded)

    def render(self, request: RenderRequest) -> TokenArray:
        try:
            prompt = self._inner.build_generation_prompt(self._messages(request.messages, request.tools))
        except Exception as error:  # because a request that the renderer refuses must not look like a service fault
            raise RenderError(f"the renderer refuses these messages: {error}") from error
        return np.asarray(prompt.to_ints(), dtype=np.uint32)

    def parse(
        self, tokens_T: TokenArray, request: RenderRequest, stop_reason: StopReason, prompt_T: TokenArray | None = None
    ) -> ParsedReply:
        try:
            message, termination = self._inner.parse_response(tokens_T.tolist())
        except Exception as error:  # because more than one stop token raises, and a reply must never cost the call
            text = self.decode(tokens_T)
            return ParsedReply("", unparsed=(UnparsedCall(text, str(error)),), clean=False)
        content, reasoning = _split_parts(message.get("content"))
        calls = [_call(call) for call in message.get("tool_calls") or ()]
        unparsed = [UnparsedCall(str(item.raw_text), str(item.error)) for item in message.get("unparsed_tool_calls") or ()]
        return ParsedReply(content, reasoning, tuple(calls), tuple(unparsed), bool(termination.is_clean))

    def decode(self, tokens_T: TokenArray) -> str:
        return str(self._tokenizer.decode(tokens_T.tolist(), skip_special_tokens=False))

    def render_conversation(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> tuple[TokenArray, npt.NDArray[np.bool_]]:
        from tinker_cookbook.renderers import TrainOnWhat

        if not getattr(self._inner, "has_extension_property", False):
            raise RenderError("this renderer drops earlier reasoning, so one row cannot hold every reply as it was sampled")
        converted = self._messages(messages, tools)
        prompt, weights_T = self._inner.build_supervised_example(converted, train_on_what=TrainOnWhat.ALL_ASSISTANT_MESSAGES)
        return np.asarray(prompt.to_ints(), dtype=np.uint32), np.asarray(weights_T, dtype=np.float32) > 0

    def _messages(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[Any]:
        from tinker_cookbook.renderers import ToolCall

        converted: list[Any] = []
        for message in clean_messages(messages):
            calls = message.pop("tool_calls", None)
            reasoning = message.pop("reasoning_content", None)
            if reasoning:
                parts = [{"type": "thinking", "thinking": reasoning}, {"type": "text", "text": message["content"]}]
                message["content"] = parts
            if calls:
                message["tool_calls"] = [ToolCall.model_validate(_with_text_arguments(call)) for call in calls]
            converted.append(message)
        if not tools:
            return converted
        system = ""
        if converted and converted[0]["role"] == "system":
            system = converted.pop(0)["content"]
        functions = [tool["function"] for tool in tools]
        specs = [
            {"name": item["name"], "description": item.get("description", ""), "parameters": item.get("parameters", {})}
            for item in functions
        ]
        return [*self._inner.create_conversation_prefix_with_tools(specs, system), *converted]


def _with_text_arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {"name": function["name"], "arguments": json.dumps(function["arguments"], ensure_ascii=False)}}


def _split_parts(content: Any) -> tuple[str, str]:
    if isinstance(content, str):
        return content, ""
    texts = [part["text"] for part in content or () if part.get("type") == "text"]
    thoughts = [part["thinking"] for part in content or () if part.get("type") == "thinking"]
    return "".join(texts), "".join(thoughts)


def _call(call: Any) -> ParsedToolCall:
    arguments = json.loads(call.function.arguments)
    return ParsedToolCall(call.function.name, arguments if isinstance(arguments, dict) else {}, call.id)
