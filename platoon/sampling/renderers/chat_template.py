"""`chat_template`: the model's own template and tokenizer, with neither torch nor transformers.

Settings (`renderer_kwargs`): enable_thinking, preserve_thinking, reasoning_effort, chat_template_kwargs, tool_call_parser
(`auto` | `hermes` | `none`), reasoning_tags (`auto` | `none` | pair).

With a template that writes a reply back as it was sampled, the prompt of call n+1 begins with prompt and completion of call n,
token for token: `RenderRequest.continues_T` keeps the sampled tokens where the text agrees.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from platoon.config.model import unknown_keys
from platoon.errors import ConfigError, Problem
from platoon.sampling.parsers.choose import choose_parser, probe_tools, probe_turn
from platoon.sampling.parsers.reasoning import THINK_TAGS, ReasoningTags
from platoon.sampling.parsers.result import ReplyParser, UnparsedCall
from platoon.sampling.renderer import ParsedReply, RenderError, RenderRequest, TokenArray
from platoon.sampling.renderers.messages import clean_messages
from platoon.sampling.renderers.template import ChatTemplate, TemplateFault
from platoon.sampling.renderers.tokenizer import TokenizerFiles
from platoon.sampling.sampler import StopReason

log = logging.getLogger(__name__)
CHAT_TEMPLATE = "chat_template"
TAIL_TOKENS = 16
BATCH_CHARACTERS = 64 * 1024
BUG_LOG_EVERY = 1000


@dataclass(frozen=True)
class ChatTemplateSettings:
    """What `renderer_kwargs` may set; None leaves the template its default."""

    enable_thinking: bool | None = True
    preserve_thinking: bool | None = None
    reasoning_effort: str | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    tool_call_parser: str = "auto"
    reasoning_tags: Literal["auto", "none"] | tuple[str, str] = "auto"

    def template_kwargs(self) -> dict[str, Any]:
        named = {key: getattr(self, key) for key in ("enable_thinking", "preserve_thinking", "reasoning_effort")}
        return {**{key: item for key, item in named.items() if item is not None}, **self.chat_template_kwargs}

    @classmethod
    def from_kwargs(cls, kwargs: Mapping[str, Any]) -> ChatTemplateSettings:
        """Raises ConfigError for keys that are no settings, and for values that are none."""
        wrong = [Problem(rule, key=f"renderer_kwargs.{key}") for key, rule in _wrong_settings(kwargs)]
        if problems := [*unknown_keys(kwargs, cls.__dataclass_fields__, "renderer_kwargs"), *wrong]:
            raise ConfigError(problems)
        tags = kwargs.get("reasoning_tags", "auto")
        return cls(**kwargs if isinstance(tags, str) else {**kwargs, "reasoning_tags": tuple(tags)})


def _wrong_settings(kwargs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in kwargs.items():
        if key in ("enable_thinking", "preserve_thinking") and not isinstance(value, bool | None):
            yield key, "must be true, false or null"
        elif key == "reasoning_effort" and not isinstance(value, str | None):
            yield key, "must be text or null"
        elif key == "tool_call_parser" and not isinstance(value, str):
            yield key, "must be text"
        elif key == "chat_template_kwargs" and not isinstance(value, Mapping):
            yield key, "must be a mapping"
        elif key == "reasoning_tags" and value not in ("auto", "none") and not _is_pair(value):
            yield key, "must be auto, none or a pair of texts"


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(tag, str) and tag for tag in value)


class ChatTemplateRenderer:
    """Renders with one tokenizer directory. Safe to share between threads and agents: nothing of a request is kept."""

    def __init__(self, files: TokenizerFiles, settings: ChatTemplateSettings, model_name: str) -> None:
        """Raises ConfigError for a template that is missing or none, and for one whose tool calls no parser reads."""
        if files.template is None:
            rule = "has no chat template (neither chat_template.jinja nor the key chat_template in tokenizer_config.json)"
            raise ConfigError(Problem(rule, file=str(files.directory)))
        self.stop_tokens = files.stop_tokens
        self._tokenizer = files.tokenizer
        try:
            self._template = ChatTemplate(files.template, files.special)
        except TemplateFault as error:
            raise ConfigError(Problem(f"its chat template is no template: {error}", file=str(files.directory))) from error
        self._settings = settings
        self._kwargs = settings.template_kwargs()
        self._tags = self._reasoning_tags(files.template)
        self._parser_bugs = 0
        self.parser: ReplyParser = choose_parser(
            settings.tool_call_parser, self._tags, self._probe, self._renders_tools(), model_name
        )

    def render(self, request: RenderRequest) -> TokenArray:
        text = self._text(request.messages, request.tools, True, request.template_kwargs)
        if request.continues_T is not None and len(request.continues_T) and int(request.continues_T[-1]) in self.stop_tokens:
            earlier = self.decode(request.continues_T)
            if text.startswith(earlier):
                return np.concatenate([request.continues_T, self._encode(text[len(earlier) :])])
        return self._encode(text)

    def parse(
        self, tokens_T: TokenArray, request: RenderRequest, stop_reason: StopReason, prompt_T: TokenArray | None = None
    ) -> ParsedReply:
        is_stop_T = np.isin(tokens_T, self.stop_tokens)
        clean = bool(is_stop_T.any())
        text = self.decode(tokens_T[: int(is_stop_T.argmax())] if clean else tokens_T)
        try:
            parsed = self.parser.parse(text, tools=request.tools, in_reasoning=self._begins_in_reasoning(prompt_T))
        except Exception as error:  # because a fault of a parser must not cost the call: the text is what was sampled
            self._tell_bug(error)
            return ParsedReply("", unparsed=(UnparsedCall(text, f"{type(error).__name__}: {error}"),), clean=clean)
        return ParsedReply(parsed.content, parsed.reasoning, parsed.tool_calls, parsed.unparsed, clean)

    def decode(self, tokens_T: TokenArray) -> str:
        return str(self._tokenizer.decode(tokens_T.tolist(), skip_special_tokens=False))

    def render_conversation(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> tuple[TokenArray, npt.NDArray[np.bool_]]:
        kwargs = template_kwargs or {}
        turns = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
        parts: list[TokenArray] = []
        trained: list[bool] = []
        told = ""
        for index in turns:
            prompt = self._text(messages[:index], tools, True, kwargs)
            whole = self._text(messages[: index + 1], tools, False, kwargs)
            if not prompt.startswith(told) or not whole.startswith(prompt):
                raise RenderError(f"messages[{index}]: the chat template writes an earlier turn otherwise than it was sampled")
            reply_T = self._reply(whole[len(prompt) :], index)
            parts += [self._encode(prompt[len(told) :]), reply_T]
            trained += [False, True]
            told = prompt + self.decode(reply_T)
        rest = self._text(messages, tools, False, kwargs)
        if not rest.startswith(told):
            raise RenderError("the chat template writes an earlier turn otherwise than it was sampled")
        parts.append(self._encode(rest[len(told) :]))
        trained.append(False)
        lengths = [len(part) for part in parts]
        return np.concatenate(parts), np.repeat(np.array(trained, dtype=np.bool_), lengths)

    def _reply(self, text: str, index: int) -> TokenArray:
        """The tokens of a reply up to and with its end token."""
        tokens_T = self._encode(text)
        is_stop_T = np.isin(tokens_T, self.stop_tokens)
        if not is_stop_T.any():
            raise RenderError(f"messages[{index}]: the chat template ends this turn without an end token")
        return tokens_T[: int(is_stop_T.argmax()) + 1]

    def _text(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], generation: bool, kwargs: Mapping[str, Any]
    ) -> str:
        merged = {**self._kwargs, **kwargs}
        return self._template.render(clean_messages(messages), tools, add_generation_prompt=generation, kwargs=merged)

    def _encode(self, text: str) -> TokenArray:
        try:
            if len(text) > BATCH_CHARACTERS:
                # The same ids, without offsets: twice as fast, and the interpreter's lock is free meanwhile.
                ids = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
            else:
                ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        except (UnicodeEncodeError, TypeError) as error:
            raise RenderError(f"the text of the messages has no UTF-8 form: {error}") from None
        return np.asarray(ids, dtype=np.uint32)

    def _begins_in_reasoning(self, prompt_T: TokenArray | None) -> bool:
        if prompt_T is None or self._tags is None:
            return False
        return self.decode(prompt_T[-TAIL_TOKENS:]).rstrip().endswith(self._tags[0])

    def _reasoning_tags(self, template: str) -> ReasoningTags | None:
        stated = self._settings.reasoning_tags
        if stated == "none":
            return None
        if isinstance(stated, tuple):
            return stated
        known = THINK_TAGS[0] in template or self._tokenizer.token_to_id(THINK_TAGS[0]) is not None
        return THINK_TAGS if known else None

    def _renders_tools(self) -> bool:
        messages = [{"role": "user", "content": "x"}]
        try:
            return self._text(messages, probe_tools(), True, {}) != self._text(messages, (), True, {})
        except RenderError:
            return False

    def _probe(self, reasoning: bool) -> tuple[str, bool] | None:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "x"}]
        try:
            prompt = self._text(messages, probe_tools(), True, {})
            whole = self._text([*messages, probe_turn(reasoning)], probe_tools(), False, {})
            if not whole.startswith(prompt):
                return None
            reply_T = self._reply(whole[len(prompt) :], 1)
        except RenderError:
            return None
        in_reasoning = self._tags is not None and prompt.rstrip().endswith(self._tags[0])
        return self.decode(reply_T[:-1]), in_reasoning

    def _tell_bug(self, error: Exception) -> None:
        self._parser_bugs += 1
        if self._parser_bugs <= 3 or self._parser_bugs % BUG_LOG_EVERY == 0:
            log.error("the %s parser failed on a reply (%d times so far)", self.parser.name, self._parser_bugs, exc_info=error)
