"""A policy of a live run: its clients, its counters, and what everybody samples.

The version counts publications since the beginning of the run. A publication makes a sampler of the weights as they are and swaps it
in: calls in flight end on the old one, the next call takes the new one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

from platoon.sampling.sampler import Sampler
from platoon.train.policy.learner import Learner, Timeouts
from platoon.train.policy.service import Retries, ServiceAddress, ServiceFactory, open_session, open_training_client
from platoon.train.policy.spec import PolicySpec
from platoon.train.policy.waits import Waits

SAVE_TIMEOUT_S = 7200.0


@dataclass(frozen=True)
class SavedWeights:
    """`tinker://` paths of one save: state to train on from, sampler weights to sample."""

    state_path: str
    sampler_path: str


class SamplerSlot(Protocol):
    """Where a publication goes: `sampling.SwappableSampler`."""

    def publish(self, sampler: Sampler, version: int) -> None: ...


class Policy:
    """One policy of a run, opened by `open` (trained) or `open_frozen`.

    slot: what the rollout side samples through; None where nobody does.
    """

    def __init__(self, spec: PolicySpec, address: ServiceAddress, factory: ServiceFactory, waits: Waits) -> None:
        self.spec, self.address = spec, address
        self.version = 0
        self.slot: SamplerSlot | None = None
        self._factory, self._waits = factory, waits
        self._service: Any = None
        self._training: Any = None
        self._learner: Learner | None = None

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def learner(self) -> Learner:
        """Raises RuntimeError for a policy that is frozen or not open."""
        if self._learner is None:
            raise RuntimeError(f"policy {self.id!r} has no learner")
        return self._learner

    async def connect(self) -> None:
        """Opens the policy's session, one of its own."""
        self._service = await open_session(self._factory, self.address, self._waits)

    async def open(self, state_path: str | None, timeouts: Timeouts, stop: asyncio.Event, *, fail_closed: bool) -> None:
        """Opens the training client: a checkpoint of this run, or what the spec starts from."""
        self._training = await open_training_client(
            self._service, self.spec, state_path, waits=self._waits, stop=stop, retries=Retries()
        )
        self._learner = Learner(self.spec, self._training, self._factory, self._waits, timeouts, fail_closed=fail_closed)

    async def save(self, name: str) -> SavedWeights:
        """Saves state and sampler weights under `name` and waits for both."""
        state, sampler = self._training.save_state(name), self._training.save_weights_for_sampler(name)
        what = f"checkpoint {name!r} of policy {self.id!r}"
        saved = await self._waits.on(state, timeout_s=SAVE_TIMEOUT_S, what=what)
        sampled = await self._waits.on(sampler, timeout_s=SAVE_TIMEOUT_S, what=what)
        return SavedWeights(str(saved.path), str(sampled.path))

    async def publish_saved(self, sampler_path: str, version: int) -> None:
        """Makes saved sampler weights what everybody samples, as `version`."""
        await self._swap(self._service.create_sampling_client(model_path=sampler_path), version)

    async def publish(self) -> None:
        """Makes the weights as they are what everybody samples, one version on."""
        await self._swap(self._training.save_weights_and_get_sampling_client(), self.version + 1)

    async def publish_frozen(self) -> None:
        """Serves a frozen policy: the weights its spec names, else its base model; version 0 for good."""
        path = self.spec.load_checkpoint_path
        chosen = {"model_path": path} if path else {"base_model": self.spec.model.model_name}
        await self._swap(self._service.create_sampling_client(**chosen), 0)

    async def _swap(self, pending: Any, version: int) -> None:
        client = await self._waits.on(pending, timeout_s=SAVE_TIMEOUT_S, what=f"a sampler of policy {self.id!r}")
        if self.slot is not None:
            self.slot.publish(self._factory.sampler(client, version, self.spec), version)
        self.version = version

    async def close(self, status: str) -> None:
        """Ends the session; a service that is gone is fine."""
        if self._service is None:
            return
        service, self._service = self._service, None
        try:
            await asyncio.wait_for(_closed(service, status), 10.0)
        except Exception:  # noqa: BLE001,S110  because the session ends by missed heartbeats in any case
            pass


async def _closed(service: Any, status: str) -> None:
    await service.close(status)
