"""The face of a training service: how clients are made, sessions opened and training clients had, with bounded retries.

`ServiceFactory` is injected, so that the lifecycle runs on a fake without the SDK. The real one is `TinkerFactory`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from platoon.errors import PlatoonError, ServiceError
from platoon.host.threads import in_daemon_thread
from platoon.sampling.swappable import VersionedSampler
from platoon.train.config_defs.training import AdamParams
from platoon.train.policy.spec import PolicySpec
from platoon.train.policy.waits import FINAL_STATUSES, REFUSED_KEY, Waits, key_refusal, status_of

if TYPE_CHECKING:
    from platoon.train.policy.wire import WireRows

OPEN_TOTAL_S = 20 * 60.0
FIRST_RETRY_S = 5.0
LONGEST_RETRY_S = 60.0
SESSION_TIMEOUT_S = 300.0
ASK_TIMEOUT_S = 60.0
# A cancelled close releases what is local, and a session that does not end here ends by missed heartbeats.
CLOSE_S = 10.0
CLOSE_DEAD_S = 0.5


@dataclass(frozen=True)
class ServiceAddress:
    """base_url None: what the SDK takes from its environment. api_key None: likewise. state_dir: of an embedded service."""

    base_url: str | None = None
    api_key: str | None = None
    state_dir: Path | None = None

    def __str__(self) -> str:
        return self.base_url or "the default address"

    @property
    def is_embedded(self) -> bool:
        """Whether the run started the service for itself: where it listens helps nobody else."""
        return self.state_dir is not None


class ServiceFactory(Protocol):
    """Makes everything of the SDK that training touches."""

    def service_client(self, address: ServiceAddress) -> Any: ...

    def rest_client(self, address: ServiceAddress) -> Any: ...

    def datums(self, rows: WireRows) -> Sequence[Any]: ...

    def adam_params(self, settings: AdamParams) -> Any: ...

    def sampler(self, client: Any, version: int, spec: PolicySpec) -> VersionedSampler: ...


async def open_session(factory: ServiceFactory, address: ServiceAddress, waits: Waits) -> Any:
    """A service client whose session exists. Raises ConfigError when the key is refused, ServiceError when nobody answers.

    A client opens its session at its first call that needs one, and blocks its caller meanwhile: that is done here, in a thread
    that nobody joins: a service that dies meanwhile leaves it blocked.
    """

    def connect() -> Any:
        client = factory.service_client(address)
        _ = client.holder
        return client

    try:
        service = "the embedded service" if address.is_embedded else f"the training service at {address}"
        return await waits.on(in_daemon_thread(connect), timeout_s=SESSION_TIMEOUT_S, what=f"a session with {service}")
    except ServiceError as error:
        refusal = key_refusal(error.__cause__, str(address)) if error.__cause__ else None
        raise refusal or error from error.__cause__


async def close_session(service: Any, status: str, *, dead: bool = False) -> None:
    """Ends the session of a service client, and the SDK's heartbeats of it; a service that is gone is fine.

    dead: whether the service is known to be gone: the SDK would ask it again for minutes.
    """

    async def close() -> None:
        # Whoever is opening the session still holds the lock that this takes.
        await (await in_daemon_thread(lambda: service.close(status)))

    with suppress(Exception):
        await asyncio.wait_for(close(), CLOSE_DEAD_S if dead else CLOSE_S)


class DamagedCheckpointError(ServiceError):
    """The service has a checkpoint and cannot read it."""

    def __init__(self, text: str, state_path: str) -> None:
        super().__init__(text)
        self.state_path = state_path


@dataclass(frozen=True)
class Retries:
    """How long a refusal is asked again: in all, first wait, longest wait; seconds."""

    total_s: float = OPEN_TOTAL_S
    first_s: float = FIRST_RETRY_S
    longest_s: float = LONGEST_RETRY_S


async def open_training_client(
    client: Any, spec: PolicySpec, state_path: str | None, *, waits: Waits, retries: Retries | None = None
) -> Any:
    """The training client of a policy.

    state_path: a checkpoint of this run, restored with its optimizer. Without one the weights of `spec.load_checkpoint_path`, with
    the optimizer only where the spec asks, else a new adapter. Refusals that may pass are retried until `retries.total_s`, and
    `waits` tell of each. Raises DamagedCheckpointError for one that is there and cannot be read.
    """
    retries = retries or Retries()
    loop = asyncio.get_running_loop()
    deadline, pause_s = loop.time() + retries.total_s, retries.first_s
    what = f"the training client of policy {spec.id!r}"
    while True:
        try:
            call = _opening(client, spec, state_path)
            return await waits.on(resolved(call), timeout_s=max(1.0, deadline - loop.time()), what=what)
        except ServiceError as error:
            cause = error.__cause__
            if cause is not None and not waits.failure and state_path is not None and _is_damaged(cause):
                raise DamagedCheckpointError(str(error), state_path) from cause
            final = cause is None or waits.failure or not _may_pass(cause)
            if final or loop.time() + pause_s > deadline:
                raise
            refusal = str(error)
        await waits.alive(asyncio.sleep(pause_s), what=f"{what}, asked again in {pause_s:g} s after {refusal}")
        pause_s = min(2 * pause_s, retries.longest_s)


def _opening(client: Any, spec: PolicySpec, state_path: str | None) -> Callable[[], Any]:
    if state_path is not None:
        return lambda: client.create_training_client_from_state_with_optimizer(state_path)
    if spec.load_checkpoint_path is not None and spec.load_optimizer_state:
        return lambda: client.create_training_client_from_state_with_optimizer(spec.load_checkpoint_path)
    if spec.load_checkpoint_path is not None:
        return lambda: client.create_training_client_from_state(spec.load_checkpoint_path)
    return lambda: client.create_lora_training_client(spec.model.model_name, rank=spec.lora_rank, seed=spec.seed)


async def resolved(call: Callable[[], Any]) -> Any:
    """The answer to what `call` asks. The submission itself may make blocking requests, so it leaves the loop."""
    return await (await in_daemon_thread(call))


def _is_damaged(error: BaseException) -> bool:
    return not isinstance(error, PlatoonError) and "damaged" in str(error).lower()


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, PlatoonError) or status_of(error) in FINAL_STATUSES or _is_damaged(error):
        return False
    # The category with which the service says that the request itself was wrong.
    return str(getattr(error, "category", "")).rpartition(".")[2].lower() != "user"


async def checkpoint_exists(factory: ServiceFactory, address: ServiceAddress, path: str, waits: Waits) -> bool:
    """Whether the service still has a checkpoint. Raises ServiceError when it cannot be asked."""
    what = f"whether {path} is still there"
    try:
        asked = resolved(lambda: factory.rest_client(address).get_weights_info_by_tinker_path(path))
        await waits.on(asked, timeout_s=ASK_TIMEOUT_S, what=what)
    except ServiceError as error:
        cause = error.__cause__
        if cause is None or waits.failure or status_of(cause) in REFUSED_KEY or _may_pass(cause):
            raise
        return False
    return True


class TinkerFactory:
    """The SDK. Nothing of it is imported before the first use."""

    def service_client(self, address: ServiceAddress) -> Any:
        import tinker

        return tinker.ServiceClient(base_url=address.base_url, api_key=address.api_key)

    def rest_client(self, address: ServiceAddress) -> Any:
        import tinker

        return tinker.RestClient(base_url=address.base_url, api_key=address.api_key)

    def datums(self, rows: WireRows) -> Sequence[Any]:
        from platoon.train.policy.wire import datums

        return datums(rows)

    def adam_params(self, settings: AdamParams) -> Any:
        import tinker

        return tinker.AdamParams(**settings.model_dump())

    def sampler(self, client: Any, version: int, spec: PolicySpec) -> VersionedSampler:
        from platoon.sampling.tinker_sampler import TinkerSampler

        timeout_s, address = spec.model.sample_timeout.seconds, spec.model.base_url
        return TinkerSampler(client, version, sample_timeout_s=timeout_s, base_url=address, policy=spec.id)
