"""The context window of a policy's model: what the service says where the configuration sets none, and whether prompts fit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from platoon.errors import ConfigError, Problem
from platoon.host.threads import in_daemon_thread
from platoon.sampling.model_spec import ModelSpec
from platoon.sampling.renderer import Renderer, RenderError, RenderRequest

ASK_TIMEOUT_S = 30.0


def refuse_small_window(spec: ModelSpec, renderer: Renderer, key: str = "context_window_length") -> None:
    """Raises ConfigError for a window that no prompt fits into with one token of a reply."""
    if spec.context_window_length is None:
        return
    try:
        shortest = len(renderer.render(RenderRequest([{"role": "user", "content": ""}])))
    except RenderError:
        return
    if spec.context_window_length <= shortest:
        rule = f"no prompt fits into {spec.context_window_length} tokens: an empty message is {shortest} tokens already"
        raise ConfigError(Problem(rule, key=key, advice="leave it out to take what the service says"))


async def with_service_window(spec: ModelSpec, make_rest_client: Callable[[], Any]) -> ModelSpec:
    """The spec with a window: its own, else the service's for its base model. A service that does not tell leaves it unset.

    make_rest_client: makes a `tinker.RestClient`; called in a thread, because making one may block.
    """
    if spec.context_window_length is not None:
        return spec
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            told = await (await in_daemon_thread(lambda: make_rest_client().get_server_capabilities()))
    except Exception:
        # The window is a courtesy: a service that fails here is met again, and reported, at the first sample.
        return spec
    for model in told.supported_models:
        if model.model_name == spec.model_name and model.max_context_length:
            return replace(spec, context_window_length=int(model.max_context_length))
    return spec
