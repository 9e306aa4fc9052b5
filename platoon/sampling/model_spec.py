"""Which model a policy samples and how: one frozen value that trainer, workers, evaluation, identity and lock share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from platoon.sampling.sample_timeout import SampleTimeout


@dataclass(frozen=True)
class SamplingSettings:
    """How one call samples. top_k -1 and top_p 1.0 are off. stop: token ids, strings, or None for the model's own end token.

    seed: None lets the service choose.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    max_tokens: int = 4096
    seed: int | None = None
    stop: tuple[int, ...] | tuple[str, ...] | None = None


@dataclass(frozen=True)
class ModelSpec:
    """model_name, renderer_name and renderer_kwargs decide tokens; the rest decides limits and where the service is.

    context_window_length: tokens of prompt and completion together, None for no check.
    """

    model_name: str
    renderer_name: str
    renderer_kwargs: Mapping[str, Any] = field(default_factory=dict)
    context_window_length: int | None = None
    sample_timeout: SampleTimeout = field(default_factory=SampleTimeout)
    base_url: str | None = None
