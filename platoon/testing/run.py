"""The real gateway and the real rollout over a scripted policy."""

from __future__ import annotations

from collections.abc import Mapping

from platoon.gateway.service import ModelGateway
from platoon.sampling.model_spec import ModelSpec, SamplingSettings
from platoon.sampling.policy import PolicyRuntime
from platoon.sampling.renderer import Renderer
from platoon.sampling.sampler import Sampler
from platoon.testing.toy_model import TOY_MODEL_NAME, TOY_RENDERER_NAME, toy_renderer


def make_gateway(
    policy: Sampler | Mapping[str, Sampler],
    *,
    renderer: Renderer | None = None,
    model_name: str = TOY_MODEL_NAME,
    context_window_length: int | None = None,
    defaults: SamplingSettings | None = None,
) -> ModelGateway:
    """A gateway that serves one policy as `main`, or several by id."""
    policies = policy if isinstance(policy, Mapping) else {"main": policy}
    spec = ModelSpec(model_name, TOY_RENDERER_NAME, context_window_length=context_window_length)
    used = renderer if renderer is not None else toy_renderer()
    return ModelGateway(
        {name: PolicyRuntime(name, spec, sampler, used, defaults or SamplingSettings()) for name, sampler in policies.items()}
    )
