"""How long one sample may take: a key of the configuration, else a variable of the environment, else a default."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass

from platoon.config.text import show
from platoon.errors import ConfigError, Problem

TIMEOUT_KEY = "sample_timeout_seconds"
VARIABLE = "TINKER_SAMPLE_TIMEOUT_SECONDS"


@dataclass(frozen=True)
class SampleTimeout:
    """origin: the key or variable that says it."""

    seconds: float = 600.0
    origin: str = "default"

    def __str__(self) -> str:
        return f"{self.seconds:g} s ({self.origin})"


def sample_timeout(*keys: tuple[str, float | None]) -> SampleTimeout:
    """The first key that is set, else the variable, else the default. Raises ConfigError for a variable that is no such time.

    keys: names and values, the one that wins first.
    """
    for key, seconds in keys:
        if seconds is not None:
            return SampleTimeout(seconds, key)
    text = os.environ.get(VARIABLE)
    if not text:
        return SampleTimeout()
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise ConfigError(Problem(f"must be a number of seconds above 0, got {show(text)}", key=VARIABLE))
    return SampleTimeout(seconds, VARIABLE)


def told(timeouts: Iterable[SampleTimeout]) -> str:
    """What a start says of them."""
    return f"longest wait for a sample: {', '.join(dict.fromkeys(map(str, timeouts)))}"
