"""The context window of a policy's model where the configuration sets none: what the service that samples it says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from platoon.host.threads import in_daemon_thread
from platoon.sampling.model_spec import ModelSpec

ASK_TIMEOUT_S = 30.0


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
