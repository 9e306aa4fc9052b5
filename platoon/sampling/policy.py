"""A policy as the gateway serves it: where it samples, how it renders, what it defaults to."""

from __future__ import annotations

from dataclasses import dataclass, field

from platoon.sampling.model_spec import ModelSpec, SamplingSettings
from platoon.sampling.renderer import Renderer
from platoon.sampling.sampler import Sampler


@dataclass(frozen=True)
class PolicyRuntime:
    """id: the policy's name in the run (`main`). The sampler is asked anew at every call, so a publication takes effect at once."""

    id: str
    spec: ModelSpec
    sampler: Sampler
    renderer: Renderer
    defaults: SamplingSettings = field(default_factory=SamplingSettings)
