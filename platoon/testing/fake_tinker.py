"""A training service in memory, behind the SDK's client classes by duck type: no HTTP, no torch, no SDK.

Weights are a digest of everything that made them: an optimizer step hashes the weights, the optimizer's state, the rows sent since
the last one and the parameters. Two models are equal exactly when the same rows and steps made them, which is what tests of
resuming ask. Checkpoints outlive clients; every call is recorded; any call can be made to fail, hang, or end the caller.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from platoon.sampling.model_spec import SamplingSettings
from platoon.sampling.sampler import Sample
from platoon.train.config_defs.training import AdamParams
from platoon.train.policy.service import ServiceAddress
from platoon.train.policy.spec import PolicySpec
from platoon.train.policy.wire import WireRows

FRESH_OPTIMIZER = "fresh"


class FakeStatusError(Exception):
    """An answer with an HTTP status, as the SDK raises it."""

    def __init__(self, status_code: int, text: str = "") -> None:
        self.status_code = status_code
        super().__init__(text or f"status {status_code}")


class Killed(BaseException):
    """Stands for the end of the process: nothing handles it."""


@dataclass(frozen=True)
class FakeWeights:
    """digest: what made the weights. optimizer: what made the optimizer's state."""

    digest: str
    optimizer: str = FRESH_OPTIMIZER


@dataclass
class FakeTinkerService:
    """One service. before, after: called with the name of every operation, before and after its effect; what they raise, the caller
    gets. hang: names of operations that never answer. windows: context lengths by base model."""

    name: str = "fake"
    checkpoints: dict[str, FakeWeights] = field(default_factory=dict)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    hang: set[str] = field(default_factory=set)
    before: Callable[[str], None] = lambda operation: None
    after: Callable[[str], None] = lambda operation: None
    optimizer_metrics: Mapping[str, float] = field(default_factory=dict)
    sessions: int = 0
    windows: dict[str, int | None] = field(default_factory=dict)

    def perform(self, operation: str, detail: Any, effect: Callable[[], Any]) -> FakeFuture:
        """Runs an operation at once; its future tells the result."""
        try:
            self.before(operation)
            self.calls.append((operation, detail))
            result = effect()
            self.after(operation)
        except BaseException as error:
            return FakeFuture(None, error)
        return FakeFuture(result, None, operation in self.hang)

    def find(self, path: str) -> FakeWeights:
        if path not in self.checkpoints:
            raise FakeStatusError(404, f"no checkpoint {path}")
        return self.checkpoints[path]

    def named(self, operation: str) -> list[Any]:
        """Details of all calls of one operation, in order."""
        return [detail for name, detail in self.calls if name == operation]


def fake_tinker_service(name: str = "fake", *, optimizer_metrics: Mapping[str, float] | None = None) -> FakeTinkerService:
    """A fresh service. optimizer_metrics: what each optimizer step answers with, numbers that are not finite included."""
    return FakeTinkerService(name, optimizer_metrics=optimizer_metrics or {})


@dataclass(frozen=True)
class FakeFuture:
    value: Any
    error: BaseException | None
    hangs: bool = False

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        if self.hangs:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return self.value


class FakeServiceClient:
    """`tinker.ServiceClient`."""

    def __init__(self, service: FakeTinkerService) -> None:
        self._service = service
        self._session: str | None = None

    @property
    def holder(self) -> str:
        if self._session is None:
            self._service.before("create_session")
            self._service.sessions += 1
            self._session = f"{self._service.name}-s{self._service.sessions}"
        return self._session

    def create_lora_training_client(self, base_model: str, rank: int = 32, seed: int | None = None) -> FakeFuture:
        weights = FakeWeights(_digest("base", base_model, rank, seed))
        return self._client("create_lora_training_client", base_model, lambda: weights)

    def create_training_client_from_state(self, path: str) -> FakeFuture:
        def effect() -> FakeWeights:
            return replace(self._service.find(path), optimizer=FRESH_OPTIMIZER)

        return self._client("create_training_client_from_state", path, effect)

    def create_training_client_from_state_with_optimizer(self, path: str) -> FakeFuture:
        return self._client("create_training_client_from_state_with_optimizer", path, lambda: self._service.find(path))

    def create_sampling_client(self, *, model_path: str | None = None, base_model: str | None = None) -> FakeFuture:
        def effect() -> FakeSamplingClient:
            digest = self._service.find(model_path).digest if model_path is not None else _digest("base", base_model)
            return FakeSamplingClient(self._service, digest)

        return self._service.perform("create_sampling_client", model_path or base_model, effect)

    def close(self, status: str) -> FakeFuture:
        return FakeFuture(None, None)

    def _client(self, operation: str, detail: Any, weights: Callable[[], FakeWeights]) -> FakeFuture:
        def effect() -> FakeTrainingClient:
            return FakeTrainingClient(self._service, f"{self.holder}:train:{len(self._service.calls)}", weights())

        return self._service.perform(operation, detail, effect)


class FakeTrainingClient:
    """`tinker.TrainingClient`."""

    def __init__(self, service: FakeTinkerService, model_id: str, weights: FakeWeights) -> None:
        self.model_id, self.weights = model_id, weights
        self._service = service
        self._gradient: list[str] = []

    def get_info(self) -> Any:
        return SimpleNamespace(model_id=self.model_id, model_data=SimpleNamespace(tokenizer_id=None))

    def forward_backward(self, data: Sequence[Any], loss_fn: str, config: Mapping[str, float] | None = None) -> FakeFuture:
        def effect() -> Any:
            self._gradient.append(_digest(loss_fn, sorted((config or {}).items()), [row["digest"] for row in data]))
            return SimpleNamespace(loss_fn_outputs=[{"logprobs": self._logprobs(row)} for row in data], metrics={"loss:sum": 1.0})

        return self._service.perform("forward_backward", [row["tokens"] for row in data], effect)

    def optim_step(self, parameters: AdamParams) -> FakeFuture:
        def effect() -> Any:
            made = _digest(self.weights, self._gradient, parameters.model_dump())
            self.weights, self._gradient = FakeWeights(made, _digest("adam", self.weights.optimizer, made)), []
            return SimpleNamespace(metrics=dict(self._service.optimizer_metrics))

        return self._service.perform("optim_step", parameters.learning_rate, effect)

    def save_state(self, name: str) -> FakeFuture:
        return self._save("save_state", f"tinker://{self.model_id}/weights/{name}")

    def save_weights_for_sampler(self, name: str) -> FakeFuture:
        return self._save("save_weights_for_sampler", f"tinker://{self.model_id}/sampler_weights/{name}")

    def save_weights_and_get_sampling_client(self) -> FakeFuture:
        digest = self.weights.digest
        return self._service.perform(
            "save_weights_and_get_sampling_client", None, lambda: FakeSamplingClient(self._service, digest)
        )

    def _save(self, operation: str, path: str) -> FakeFuture:
        weights = self.weights

        def effect() -> Any:
            self._service.checkpoints[path] = weights
            return SimpleNamespace(path=path)

        return self._service.perform(operation, path, effect)

    def _logprobs(self, row: Mapping[str, Any]) -> npt.NDArray[np.float32]:
        unit = int(hashlib.sha256(self.weights.digest.encode()).hexdigest()[:4], 16) / 0xFFFF
        return np.full(len(row["tokens"]), -0.5 - unit, dtype=np.float32)


@dataclass(frozen=True)
class FakeSamplingClient:
    """`tinker.SamplingClient`, as much of it as `FakeSampler` asks."""

    service: FakeTinkerService
    digest: str


@dataclass(frozen=True)
class FakeSampler:
    """Samples tokens that depend on weights, prompt and seed alone."""

    client: FakeSamplingClient
    version: int

    async def sample(self, prompt_T: npt.NDArray[np.uint32], settings: SamplingSettings) -> Sample:
        seed = _digest(self.client.digest, prompt_T.tolist(), settings.seed)
        count = 1 + int(seed[:2], 16) % min(8, settings.max_tokens)
        tokens_T = np.frombuffer(bytes.fromhex(seed)[:count], dtype=np.uint8).astype(np.uint32)
        return Sample(tokens_T, np.full(count, -1.0, dtype=np.float32), "stop", self.version)

    async def score(self, tokens_T: npt.NDArray[np.uint32]) -> npt.NDArray[np.float32]:
        return np.full(len(tokens_T) - 1, -1.0, dtype=np.float32)


class FakeRestClient:
    """`tinker.RestClient`."""

    def __init__(self, service: FakeTinkerService) -> None:
        self._service = service

    def get_server_capabilities(self) -> FakeFuture:
        def effect() -> Any:
            rows = [SimpleNamespace(model_name=name, max_context_length=length) for name, length in self._service.windows.items()]
            return SimpleNamespace(supported_models=rows)

        return self._service.perform("get_server_capabilities", None, effect)

    def get_weights_info_by_tinker_path(self, path: str) -> FakeFuture:
        return self._service.perform("get_weights_info", path, lambda: self._service.find(path))

    def delete_checkpoint_from_tinker_path(self, path: str) -> FakeFuture:
        def effect() -> None:
            self._service.find(path)
            del self._service.checkpoints[path]

        return self._service.perform("delete_checkpoint", path, effect)


class FakeFactory:
    """A `ServiceFactory` over fake services by address; the service at None answers for every other address."""

    def __init__(self, services: Mapping[str | None, FakeTinkerService]) -> None:
        self.services = services

    def service_client(self, address: ServiceAddress) -> FakeServiceClient:
        return FakeServiceClient(self._at(address))

    def rest_client(self, address: ServiceAddress) -> FakeRestClient:
        return FakeRestClient(self._at(address))

    def datums(self, rows: WireRows) -> Sequence[Any]:
        built = []
        for index in range(len(rows)):
            place = rows.row(index)
            columns = {name: column[place].tolist() for name, column in rows.inputs_T.items()}
            tokens = rows.tokens_T[place].tolist()
            built.append({"tokens": tokens, "digest": _digest(tokens, rows.targets_T[place].tolist(), sorted(columns.items()))})
        return built

    def adam_params(self, settings: AdamParams) -> AdamParams:
        return settings

    def sampler(self, client: FakeSamplingClient, version: int, spec: PolicySpec) -> FakeSampler:
        return FakeSampler(client, version)

    def _at(self, address: ServiceAddress) -> FakeTinkerService:
        return self.services[address.base_url] if address.base_url in self.services else self.services[None]


def _digest(*values: Any) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()
