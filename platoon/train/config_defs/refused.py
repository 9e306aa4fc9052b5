"""Keys that the configuration language knows and this version does not act on: refused by name, never silently accepted.

A model declares such a key as `Annotated[Any, Only(default, advice), OMIT] = default`: the default (null, or a value that asks for
nothing) is accepted, so that a configuration which spells it out still loads; anything else is an error at that key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

# Such keys say nothing, so they stay out of dumps.
OMIT = Field(exclude=True)


# Compared by identity: typing would else take `Only(0)` and `Only(False)` for the same annotation.
@dataclass(frozen=True, eq=False)
class Only:
    """The default is the only value this version can act on."""

    default: Any
    advice: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._check)

    def _check(self, value: Any) -> Any:
        numbers = type(value) in (int, float) and type(self.default) in (int, float)
        if value == self.default and (numbers or type(value) is type(self.default)):
            return value
        asks = "leave it out" if self.default is None else f"leave it out or at {self.default!r}"
        advice = f"{asks}; {self.advice}" if self.advice else asks
        raise PydanticCustomError("unsupported_key", "this version does not act on this key ({advice})", {"advice": advice})


@dataclass(frozen=True, eq=False)
class Removed:
    """A key of earlier versions: any value is an error that says what replaced it."""

    advice: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._check)

    def _check(self, value: Any) -> Any:
        if value is not None:
            raise PydanticCustomError("removed_key", "removed: {advice}", {"advice": self.advice})
        return value
