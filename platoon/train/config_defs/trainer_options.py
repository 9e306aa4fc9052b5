"""`trainer_options`: what each trainer reads of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field, ValidationError

from platoon.config.model import ConfigModel
from platoon.config.problems import from_validation_error
from platoon.errors import Problem

KEY = "trainer_options"


class SftOptions(ConfigModel):
    """`trainer_options` of sft."""

    data: str | list[str] = Field(min_length=1)
    """one or several files of conversations, a JSON object with `messages` a line"""
    max_length: int | None = Field(default=None, ge=2)
    """tokens a conversation is cut to, from the right; unset, none is"""

    @property
    def paths(self) -> list[str]:
        return [self.data] if isinstance(self.data, str) else list(self.data)


def trainer_option_problems(trainer: str, options: Mapping[str, Any]) -> Iterator[Problem]:
    """Options that the trainer does not have, lacks, or cannot take."""
    if trainer != "sft":
        if options:
            yield Problem(f"trainer {trainer} takes no options", key=KEY)
        return
    try:
        SftOptions.model_validate(dict(options))
    except ValidationError as error:
        for problem in from_validation_error(error, SftOptions, dict(options), lambda key: ""):
            yield replace(problem, key=f"{KEY}.{problem.key}" if problem.key else KEY)
