"""Options that a harness spec declares: typed, bounded, with defaults."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from platoon.config.model import nearest

OptionType = Literal["bool", "int", "float", "str"]
OptionValue = bool | int | float | str


class OptionSpec(BaseModel):
    """`[options.NAME]`. allowed: for int and str. min, max: for int and float, inclusive."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    type: OptionType
    default: OptionValue
    description: str = ""
    allowed: list[OptionValue] | None = None
    min: int | Annotated[float, Field(allow_inf_nan=False)] | None = None
    max: int | Annotated[float, Field(allow_inf_nan=False)] | None = None

    def check(self, value: OptionValue) -> OptionValue:
        """The value as its type. Raises ValueError saying what must hold; a bool is no int, an int is a float's."""
        kinds: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float), "str": (str,)}
        if not isinstance(value, kinds[self.type]) or (isinstance(value, bool) and self.type != "bool"):
            raise ValueError(f"must be a {self.type}, not {value!r}")
        if self.type == "float":
            value = float(value)
            if not math.isfinite(value):
                raise ValueError("must be finite")
        if self.allowed is not None and value not in self.allowed:
            raise ValueError(f"must be one of {', '.join(map(repr, self.allowed))}")
        if self.min is not None and not isinstance(value, str) and value < self.min:
            raise ValueError(f"must be at least {self.min}")
        if self.max is not None and not isinstance(value, str) and value > self.max:
            raise ValueError(f"must be at most {self.max}")
        return value


def resolve_options(declared: Mapping[str, OptionSpec], given: Mapping[str, Any]) -> dict[str, OptionValue]:
    """Defaults with the given values on top, in the order declared. Raises ValueError naming the option."""
    for name in given:
        if name not in declared:
            hint = nearest(name, declared) or "it has none"
            raise ValueError(f"harness_options.{name}: the spec declares no such option ({hint})")
    resolved = {}
    for name, option in declared.items():
        try:
            resolved[name] = option.check(given.get(name, option.default))
        except ValueError as error:
            raise ValueError(f"harness_options.{name}: {error}") from None
    return resolved


def option_text(value: OptionValue) -> str:
    """As a placeholder renders it: `true`/`false`, plain decimal, text as is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:f}".rstrip("0").rstrip(".") if abs(value) < 1e15 else repr(value)
    return str(value)


def option_values(options: Mapping[str, OptionValue]) -> dict[str, str]:
    """The placeholders of options: each by name, and all as one sorted JSON object."""
    each = {f"options.{name}": option_text(value) for name, value in options.items()}
    return {**each, "options": json.dumps(dict(options), sort_keys=True, ensure_ascii=False)}
