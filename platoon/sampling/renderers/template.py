"""A chat template: jinja in a sandbox, with the names that published templates expect."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from platoon.sampling.renderer import RenderError


class GenerationTag(Extension):
    """`{% generation %}` marks assistant text for other tools; here it renders its body."""

    tags = {"generation"}  # noqa: RUF012  because jinja reads a plain class attribute

    def parse(self, parser: Any) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> Any:
    raise jinja2.TemplateError(message)


class TemplateFault(ValueError):
    """A text that is no template."""


class ChatTemplate:
    """One template with its special-token variables (`bos_token`, `eos_token`, ...). A text that is none raises TemplateFault."""

    def __init__(self, source: str, variables: Mapping[str, Any]) -> None:
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, GenerationTag])
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = time.strftime
        self.source = source
        self._variables = dict(variables)
        try:
            self._template = environment.from_string(source)
        except (jinja2.TemplateError, SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            line = getattr(error, "lineno", None)
            raise TemplateFault(f"line {line}: {error}" if line else str(error)) from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool,
        kwargs: Mapping[str, Any],
    ) -> str:
        """The text. Raises RenderError with the template's own message."""
        try:
            return self._template.render(
                {
                    **self._variables,
                    **kwargs,
                    "messages": messages,
                    "tools": list(tools) or None,
                    "documents": None,
                    "add_generation_prompt": add_generation_prompt,
                }
            )
        except (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            raise RenderError(f"the chat template refuses these messages: {error}") from error
