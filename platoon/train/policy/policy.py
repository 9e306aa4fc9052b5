"""A policy of a live run: its clients, its counters, and what everybody samples.

The version counts publications since the beginning of the run. A publication makes a sampler of the weights as they are and swaps
it in: calls in flight end on the old one, the next call takes the new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from platoon.errors import ServiceError
from platoon.sampling.context_window import ASK_TIMEOUT_S, with_service_window
from platoon.sampling.model_spec import ModelSpec
from platoon.sampling.service_errors import NOT_FOUND, missing_checkpoint
from platoon.sampling.swappable import SwappableSampler
from platoon.train.policy.learner import Learner, Timeouts
from platoon.train.policy.service import ServiceAddress, ServiceFactory, close_session, open_session, open_training_client, resolved
from platoon.train.policy.spec import PolicySpec
from platoon.train.policy.waits import Waits, status_of

SAVE_TIMEOUT_S = 7200.0
DELETE_TIMEOUT_S = 330.0


@dataclass(frozen=True)
class SavedWeights:
    """`tinker://` paths of one save: state to train on from, sampler weights to sample."""

    state_path: str
    sampler_path: str


class Policy:
    """One policy of a run, opened by `open` (trained) or `open_frozen`.

    sampled: whether anybody samples it; a policy that nobody samples has no sampler.
    """

    def __init__(self, spec: PolicySpec, address: ServiceAddress, factory: ServiceFactory, waits: Waits, *, sampled: bool) -> None:
        self.spec, self.address, self.sampled = spec, address, sampled
        self.version = 0
        self._sampler: SwappableSampler | None = None
        self._factory, self._waits = factory, waits
        self._service: Any = None
        self._training: Any = None
        self._learner: Learner | None = None

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def place(self) -> str:
        """The policy for messages, and where its service is unless it is the run's own."""
        return f"policy {self.id!r}" + ("" if self.address.is_embedded else f" at {self.address}")

    @property
    def learner(self) -> Learner:
        """Raises RuntimeError for a policy that is frozen or not open."""
        if self._learner is None:
            raise RuntimeError(f"policy {self.id!r} has no learner")
        return self._learner

    @property
    def sampler(self) -> SwappableSampler:
        """What everybody samples, from the first publication on. Raises RuntimeError before it."""
        if self._sampler is None:
            raise RuntimeError(f"policy {self.id!r} was not published")
        return self._sampler

    @property
    def tokenizer_id(self) -> str | None:
        """What the service names as the model's tokenizer: a local directory, a name, or None. Raises RuntimeError when frozen."""
        if self._training is None:
            raise RuntimeError(f"policy {self.id!r} has no training client")
        found = self._training.get_info().model_data.tokenizer_id
        return str(found) if found else None

    async def served_model(self) -> ModelSpec:
        """The model as agents sample it: the spec's, with the context window the service tells where the spec has none."""
        asked = with_service_window(self.spec.model, lambda: self._factory.rest_client(self.address))
        return await self._waits.on(asked, timeout_s=2 * ASK_TIMEOUT_S, what=f"the context window of {self.place}")

    async def connect(self) -> None:
        """Opens the policy's session, one of its own."""
        self._service = await open_session(self._factory, self.address, self._waits)

    async def open(self, state_path: str | None, timeouts: Timeouts, *, fail_closed: bool) -> None:
        """Opens the training client: a checkpoint of this run, or what the spec starts from."""
        with self._begins_with(self.spec.load_checkpoint_path if state_path is None else None):
            self._training = await open_training_client(self._service, self.spec, state_path, waits=self._waits)
        self._learner = Learner(
            self.spec, self._training, self._factory, self._waits, timeouts, place=self.place, fail_closed=fail_closed
        )

    def weights_named(self, name: str) -> SavedWeights:
        """Where `save` puts what it saves under `name`."""
        run = f"tinker://{self._training.model_id}"
        return SavedWeights(f"{run}/weights/{name}", f"{run}/sampler_weights/{name}")

    async def save(self, name: str) -> SavedWeights:
        """Saves state and sampler weights under `name`; nothing of it is under way when this returns or raises."""
        what = f"checkpoint {name!r} of {self.place}"
        asked = (self._training.save_state(name), self._training.save_weights_for_sampler(name))
        waits = [asyncio.ensure_future(self._waits.on(answer, timeout_s=SAVE_TIMEOUT_S, what=what)) for answer in asked]
        await asyncio.gather(*waits, return_exceptions=True)
        saved, sampled = (wait.result() for wait in waits)
        return SavedWeights(str(saved.path), str(sampled.path))

    async def delete_weights(self, path: str) -> bool:
        """Has the service delete a checkpoint; False when it has none there. Raises ServiceError when it stays."""
        asked = resolved(lambda: self._factory.rest_client(self.address).delete_checkpoint_from_tinker_path(path))
        try:
            await self._waits.quiet().on(asked, timeout_s=DELETE_TIMEOUT_S, what=f"the deletion of {path}")
        except ServiceError as error:
            if error.__cause__ is not None and status_of(error.__cause__) == NOT_FOUND:
                return False
            raise
        return True

    async def publish_saved(self, sampler_path: str, version: int) -> None:
        """Makes saved sampler weights what everybody samples, as `version`."""
        if not self.sampled:
            self.version = version
            return
        await self._swap(self._service.create_sampling_client(model_path=sampler_path), version)

    async def publish(self) -> None:
        """Makes the weights as they are what everybody samples, one version on."""
        await self._swap(self._training.save_weights_and_get_sampling_client(), self.version + 1)

    async def publish_frozen(self) -> None:
        """Serves a frozen policy: the weights its spec names, else its base model; version 0 for good."""
        path = self.spec.load_checkpoint_path
        chosen = {"model_path": path} if path else {"base_model": self.spec.model.model_name}
        with self._begins_with(path):
            await self._swap(self._service.create_sampling_client(**chosen), 0)

    @contextmanager
    def _begins_with(self, path: str | None) -> Iterator[None]:
        """Tells weights that the service does not have from its other failures. path: None for weights of this run."""
        try:
            yield
        except ServiceError as error:
            missing = missing_checkpoint(error.__cause__, path, self.address.base_url, self.address.state_dir)
            raise missing or error from error.__cause__

    async def _swap(self, pending: Any, version: int) -> None:
        client = await self._waits.on(pending, timeout_s=SAVE_TIMEOUT_S, what=f"a sampler of {self.place}")
        sampler = self._factory.sampler(client, version, self.spec)
        if self._sampler is None:
            self._sampler = SwappableSampler(sampler)
        else:
            self._sampler.publish(sampler)
        self.version = version

    async def close(self, status: str) -> None:
        """Ends the session; a service that is gone is fine."""
        if self._service is None:
            return
        service, self._service = self._service, None
        await close_session(service, status, dead=bool(self._waits.failure))
