"""Whose sampling settings win: the call's, the rollout's, or the gateway's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from platoon.core.call_kinds import CallKind
from platoon.gateway.agents import AgentLimits
from platoon.gateway.requests import SamplingOverrides
from platoon.sampling.model_spec import SamplingSettings


def resolve_sampling(
    request: SamplingOverrides, limits: AgentLimits, kind: CallKind, defaults: SamplingSettings, seed: int | None
) -> SamplingSettings:
    """The settings of one call. seed: a deterministic rollout's, which wins over everything.

    Under `sampling_precedence: config` policy calls take temperature, top_p and top_k from the rollout, and max_tokens where the
    rollout sets it; stop and seed stay the call's. An exposed key's `aux` calls sample as policy calls.
    """
    base = limits.sampling or defaults
    own: dict[str, Any] = {
        name: value for name in ("temperature", "top_p", "top_k", "max_tokens") if (value := getattr(request, name)) is not None
    }
    forced = limits.sampling_precedence == "config" and (kind == "policy" or (kind == "aux" and limits.policy_only))
    if forced:
        own = {"max_tokens": own["max_tokens"]} if limits.sampling is None and "max_tokens" in own else {}
    chosen = seed if seed is not None else request.seed if request.seed is not None else base.seed
    return replace(base, **own, seed=chosen, stop=request.stop or base.stop)
