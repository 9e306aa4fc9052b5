"""Opens what an evaluation samples: the training service (an embedded one for `local`), one sampling client, its renderer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from platoon.episodes.route import Route
from platoon.errors import ServiceError
from platoon.host.imports import begin_import
from platoon.host.threads import in_daemon_thread
from platoon.sampling.model_spec import ModelSpec
from platoon.sampling.policy import PolicyRuntime
from platoon.train.policy.service import close_session
from platoon.train.policy.spec import LOCAL
from platoon.train.services import base_url

MAIN = "main"
WITHOUT_MODEL = ("platoon-oracle", "platoon-noop")
OPEN_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class OpenedPolicy:
    """runtime: what the gateway serves as `main`. died: waits for an unasked end of the embedded service and says why."""

    runtime: PolicyRuntime
    died: Callable[[], Awaitable[str]] | None = None


@dataclass(frozen=True)
class OpenRequest:
    """model_path: sampler weights, None for the base model; version: theirs. state_dir: where embedded services keep
    checkpoints."""

    spec: ModelSpec
    model_path: str | None
    version: int
    deterministic: bool
    state_dir: Path
    log_path: Path


@asynccontextmanager
async def open_policy(request: OpenRequest) -> AsyncIterator[OpenedPolicy]:
    """The policy of a spec that `early_renderers` passed, while the block runs; an embedded service is ended with it."""
    address = base_url(request.spec)
    if address != LOCAL:
        async with _session(address, None) as client:
            yield OpenedPolicy(await _runtime(request, client, address, None, None))
        return
    from platoon.local.bases import all_bases
    from platoon.local.launcher import start_local_service

    service = start_local_service(request.state_dir, deterministic=request.deterministic, log_path=request.log_path)
    begin_import("tinker")
    async with service:
        tokenizer = all_bases()[request.spec.model_name].write_directory(request.state_dir / "bases")
        async with _session(service.base_url, service.api_key, alive=service.alive) as client:
            yield OpenedPolicy(await _runtime(request, client, service.base_url, service.api_key, tokenizer), service.died)


def without_model(route: Route) -> bool:
    """Whether the harness asks no model."""
    return route.harness.partition("@")[0] in WITHOUT_MODEL


@asynccontextmanager
async def open_nobody(request: OpenRequest) -> AsyncIterator[OpenedPolicy]:
    """A stand-in for the policy of harnesses that ask none: an oracle needs no service."""
    nobody: Any = _Nobody()
    yield OpenedPolicy(PolicyRuntime(MAIN, ModelSpec(request.spec.model_name, "none"), nobody, nobody))


class _Nobody:
    """A sampler and renderer that are never asked."""

    stop_tokens: tuple[int, ...] = ()

    def __getattr__(self, name: str) -> NoReturn:
        raise ServiceError("this harness was played without a model")


@asynccontextmanager
async def _session(base_url: str | None, api_key: str | None, alive: Callable[[], bool] = lambda: True) -> AsyncIterator[Any]:
    """A service client, which opens its session when it is first needed, and whose session ends with the block."""
    from platoon.sampling.service_errors import service_errors

    with service_errors("opening the sampler", base_url=base_url):
        client = await in_daemon_thread(lambda: _service_client(base_url, api_key))
    try:
        yield client
    except BaseException:
        # What failed may be the session, which then ends by missed heartbeats.
        await close_session(client, "errored", dead=True)
        raise
    await close_session(client, "success", dead=not alive())


async def _runtime(
    request: OpenRequest, service: Any, base_url: str | None, api_key: str | None, tokenizer: Path | None
) -> PolicyRuntime:
    from platoon.sampling.context_window import refuse_small_window, with_service_window
    from platoon.sampling.renderers.build import build_renderer
    from platoon.sampling.service_errors import missing_checkpoint, service_errors
    from platoon.sampling.tinker_sampler import TinkerSampler
    from platoon.train.trainer.renderers import tokenizer_directory

    spec = request.spec
    renderer = await in_daemon_thread(lambda: build_renderer(spec, tokenizer or tokenizer_directory(spec.model_name)))
    refuse_small_window(spec, renderer)
    with service_errors("opening the sampler", base_url=base_url):
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                # The SDK opens its session in its first call and blocks its caller meanwhile.
                client = await (await in_daemon_thread(lambda: _sampling_client(service, spec, request.model_path)))
        except TimeoutError:
            address = base_url or "the default address"
            raise ServiceError(f"the service at {address} gave no sampler in {OPEN_TIMEOUT_S:g} s") from None
        except Exception as error:
            state_dir = request.state_dir if tokenizer is not None else None
            if missing := missing_checkpoint(error, request.model_path, base_url, state_dir):
                raise missing from error
            raise
    sampler = TinkerSampler(client, request.version, sample_timeout_s=spec.sample_timeout.seconds, base_url=base_url)
    spec = await with_service_window(spec, lambda: _rest_client(base_url, api_key))
    return PolicyRuntime(MAIN, spec, sampler, renderer)


def _rest_client(base_url: str | None, api_key: str | None) -> Any:
    import tinker

    return tinker.RestClient(base_url=base_url, api_key=api_key)


def _service_client(base_url: str | None, api_key: str | None) -> Any:
    """Asks nobody yet."""
    import tinker

    return tinker.ServiceClient(base_url=base_url, api_key=api_key)


def _sampling_client(service: Any, spec: ModelSpec, model_path: str | None) -> Any:
    """The future of a sampling client."""
    if model_path is not None:
        return service.create_sampling_client(model_path=model_path)
    return service.create_sampling_client(base_model=spec.model_name)
