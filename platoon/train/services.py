"""Where each policy's training service is, and the embedded ones a run starts for itself."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from platoon.errors import ConfigError, Problem
from platoon.host.imports import begin_import
from platoon.sampling.model_spec import ModelSpec
from platoon.train.config_defs.run import RunConfig
from platoon.train.config_defs.values import address_problem
from platoon.train.policy.service import ServiceAddress
from platoon.train.policy.spec import LOCAL, PolicySpec

KEY_VARIABLE = "TINKER_API_KEY"
KEY_PREFIX = "tml-"
ADDRESS_VARIABLE = "TINKER_BASE_URL"


@dataclass(frozen=True)
class RunServices:
    """addresses: by policy. died: by name of an embedded service, what waits for its unasked end and says why."""

    addresses: Mapping[str, ServiceAddress]
    died: Mapping[str, Callable[[], Awaitable[str]]]


def service_names(config: RunConfig, specs: Mapping[str, PolicySpec]) -> dict[str, str]:
    """Which service each policy uses: `run` for the run's own, its id for a policy with an address of its own."""
    return {policy: policy if policy in config.policies and config.policies[policy].tinker_base_url else "run" for policy in specs}


def check_key(models: Iterable[ModelSpec]) -> None:
    """Raises ConfigError when a service that is not embedded needs a key and none that can be one is set."""
    if all(base_url(model) == LOCAL for model in models):
        return
    key = os.environ.get(KEY_VARIABLE, "")
    if not key.startswith(KEY_PREFIX):
        rule = f"must be set and begin with {KEY_PREFIX!r}" if not key else f"must begin with {KEY_PREFIX!r}"
        raise ConfigError(Problem(rule, key=KEY_VARIABLE, advice="or use the embedded service: tinker_base_url: local"))


@asynccontextmanager
async def run_services(
    config: RunConfig, specs: Mapping[str, PolicySpec], state_dir: Path, log_dir: Path
) -> AsyncIterator[RunServices]:
    """Starts the embedded services the policies need, and ends them when the block does.

    state_dir: where embedded services keep checkpoints.
    """
    names = service_names(config, specs)
    addresses: dict[str, ServiceAddress] = {}
    started: dict[str, ServiceAddress] = {}
    died: dict[str, Callable[[], Awaitable[str]]] = {}
    # The SDK's import and the start of a service take about as long, on a core each.
    begin_import("tinker")
    async with AsyncExitStack() as stack:
        for policy, spec in specs.items():
            address = base_url(spec.model)
            if address != LOCAL:
                addresses[policy] = ServiceAddress(address)
                continue
            name = names[policy]
            if name not in started:
                from platoon.local.launcher import start_local_service

                log_path = log_dir / f"service-{name}.log"
                service = start_local_service(state_dir, deterministic=config.deterministic, log_path=log_path)
                await stack.enter_async_context(service)
                started[name] = ServiceAddress(service.base_url, service.api_key, state_dir)
                died[name] = service.died
            addresses[policy] = started[name]
        yield RunServices(addresses, died)


def base_url(model: ModelSpec) -> str | None:
    """Where a model's service is; None for the SDK's default address. Raises ConfigError for a variable that holds no address."""
    given = os.environ.get(ADDRESS_VARIABLE) if model.base_url is None else None
    if given and (problem := address_problem(given)) is not None:
        raise ConfigError(replace(problem, key=ADDRESS_VARIABLE))
    return model.base_url or given or None


def place_of(model: ModelSpec) -> str:
    """The service of a model, for messages."""
    address = base_url(model)
    return "the embedded service" if address == LOCAL else f"the training service at {address or 'the default address'}"
