"""What the service does, without HTTP: sessions, models, samplers and checkpoints over one torch thread.

Methods run on the event loop; they validate, open a promise, and queue the work. Work of one model runs in the order of its
sequence numbers.
"""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from platoon.local import requests
from platoon.local.bases import Base, find_base
from platoon.local.checkpoints import CheckpointId, CheckpointInfo, CheckpointStore, Contents
from platoon.local.decoder import Kernel, independent_kernel
from platoon.local.faults import FaultTable
from platoon.local.learner import AdamSettings, Learner
from platoon.local.model import Weights
from platoon.local.promises import Outcome, Promise, Promises
from platoon.local.refusals import NotFound, Refusal, StorageError
from platoon.local.sampling_engine import LiveSampler, SamplingEngine
from platoon.local.sessions import Model, Registry, SamplerRecord
from platoon.local.settings import ServiceSettings
from platoon.local.tokens import Tokens
from platoon.local.wire import ForwardBackward, encode_logprobs
from platoon.local.worker import Worker

TRAIN_GROUPS = ("attn", "mlp", "unembed")


class LocalService:
    """One server's state."""

    def __init__(self, settings: ServiceSettings, faults: FaultTable) -> None:
        self.settings = settings
        self.faults = faults
        self.registry = Registry()
        self.promises = Promises()
        self.store = CheckpointStore(settings.state_dir / "checkpoints")
        self.engine = SamplingEngine()
        self.worker = Worker(self.engine, settings.threads, settings.deterministic)
        self._kernels: dict[str, Kernel] = {}
        self._base_samplers: dict[str, LiveSampler] = {}
        self._tokens: dict[str, Tokens] = {}

    def tokens(self, base: Base) -> Tokens:
        """The base's tokenizer, its directory written on first use."""
        if base.name not in self._tokens:
            self._tokens[base.name] = Tokens(base, base.write_directory(self.settings.state_dir / "bases"))
        return self._tokens[base.name]

    # Models

    def create_model(self, body: requests.CreateModel) -> Promise:
        """A new run from a base model."""
        self.registry.session(body.session_id)
        _check_optimizer(body.optimizer_config)
        base = find_base(body.base_model)
        lora = body.lora_config
        wanted = {"attn": lora.train_attn, "mlp": lora.train_mlp, "unembed": lora.train_unembed}
        groups = tuple(name for name in TRAIN_GROUPS if wanted[name])
        model = Model(f"{body.session_id}:train:{body.model_seq_id}", base, lora.rank, groups, _texts(body.user_metadata))

        def make() -> Outcome:
            model.learner = self._learner(base, torch.from_numpy(base.parameters()), groups)
            return {"model_id": model.id, "type": "create_model"}

        return self._new_run(model, make)

    def load_new_run(self, body: requests.LoadWeights) -> Promise:
        """A new run from a checkpoint, with or without its optimizer."""
        if body.session_id is None or body.model_seq_id is None:
            raise Refusal("load_weights needs session_id and model_seq_id, or model_id and seq_id", status=422)
        self.registry.session(body.session_id)
        _check_optimizer(body.optimizer_config)
        info = self.store.info(CheckpointId.parse(body.path))
        description = info.description
        base = _same_base(body.base_model, description.base_model)
        metadata = _texts(body.user_metadata)
        model = Model(f"{body.session_id}:train:{body.model_seq_id}", base, description.rank, description.train_groups, metadata)

        def make() -> Outcome:
            contents = self.store.load(info.id, base.shape)
            learner = self._learner(base, torch.from_numpy(contents.parameters), model.train_groups)
            if body.optimizer:
                _restore(learner, contents, info.id)
            model.learner = learner
            return {"path": body.path, "model_id": model.id, "type": "load_weights"}

        return self._new_run(model, make)

    def load_into(self, body: requests.LoadWeights) -> Promise:
        """Replaces the parameters of an existing run."""
        assert body.model_id is not None
        model = self.registry.model(body.model_id)
        checkpoint = CheckpointId.parse(body.path)

        def work() -> Outcome:
            learner = model.ready()
            _same_base(model.base.name, self.store.info(checkpoint).description.base_model)
            contents = self.store.load(checkpoint, model.base.shape)
            learner.load_parameters(torch.from_numpy(contents.parameters))
            if body.optimizer:
                _restore(learner, contents, checkpoint)
            return {"path": body.path, "model_id": model.id, "type": "load_weights"}

        return self._in_turn(model, body.seq_id, work)

    def forward_backward(self, call: ForwardBackward) -> Promise:
        """Learner logprobs and, unless forward only, gradients."""
        model = self.registry.model(call.model_id)

        def work() -> Outcome:
            logprobs, loss = model.ready().forward_backward(call.examples, call.loss_name, call.config, call.backward)
            return encode_logprobs(logprobs, loss)

        return self._in_turn(model, call.sequence_id, work)

    def optim_step(self, body: requests.OptimStep) -> Promise:
        """One AdamW step."""
        model = self.registry.model(body.model_id)
        _check_optimizer(body.optimizer_params)
        settings = AdamSettings(**(body.adam_params or requests.AdamParams()).model_dump())

        def work() -> Outcome:
            return {"metrics": {"grad_norm:mean": model.ready().step(settings)}}

        return self._in_turn(model, body.seq_id, work)

    # Checkpoints and samplers

    def save_weights(self, body: requests.SaveWeights) -> Promise:
        """A durable training checkpoint: parameters and optimizer."""
        model = self.registry.model(body.model_id)
        checkpoint = CheckpointId.of(model.id, "weights", body.path)

        def work() -> Outcome:
            learner = model.ready()
            state = learner.optimizer
            contents = Contents(_array(learner.weights.flat), _array(state.first), _array(state.second), state.steps)
            return self._save(model, checkpoint, contents, body) | {"type": "save_weights"}

        return self._in_turn(model, body.seq_id, work)

    def save_for_sampler(self, body: requests.SaveWeightsForSampler) -> Promise:
        """A durable sampler checkpoint when it has a name, else a sampler that lives with the session."""
        model = self.registry.model(body.model_id)
        if body.path is not None:
            checkpoint = CheckpointId.of(model.id, "sampler_weights", body.path)

            def save() -> Outcome:
                learner = model.ready()
                contents = Contents(_array(learner.weights.flat), steps=learner.optimizer.steps)
                return self._save(model, checkpoint, contents, body) | {"type": "save_weights_for_sampler"}

            return self._in_turn(model, body.seq_id, save)
        if body.sampling_session_seq_id is None:
            raise Refusal("save_weights_for_sampler needs a path or a sampling_session_seq_id", status=422)
        sampler_id = f"{model.session_id}:sample:{body.sampling_session_seq_id}"
        made: list[LiveSampler] = []

        def make() -> Outcome:
            learner = model.ready()
            if body.kind == "inflight":
                model.inflight = model.inflight or LiveSampler(learner.kernel, learner.weights)
                made.append(model.inflight)
            else:
                made.append(LiveSampler(learner.kernel, learner.weights.snapshot()))
            return {"sampling_session_id": sampler_id, "type": "save_weights_for_sampler"}

        def register() -> None:
            if not self.registry.sessions[model.session_id].finished:
                self.registry.add_sampler(SamplerRecord(sampler_id, model.base, None, made[0]))

        return self._in_turn(model, body.seq_id, make, register)

    async def create_sampling_session(self, body: requests.CreateSamplingSession) -> str:
        """A sampler of a checkpoint or of a base model; its id."""
        self.registry.session(body.session_id)
        sampler_id = f"{body.session_id}:sample:{body.sampling_session_seq_id}"
        if sampler_id in self.registry.samplers:
            return sampler_id
        if body.model_path is not None:
            info = self.store.info(CheckpointId.parse(body.model_path))
            base = find_base(info.description.base_model)
            live = await self.worker.call(lambda: self._load_sampler(base, info))
        elif body.base_model is not None:
            base = find_base(body.base_model)
            live = await self.worker.call(lambda: self._base_sampler(base))
        else:
            raise Refusal("create_sampling_session needs a model_path or a base_model", status=422)
        self.registry.add_sampler(SamplerRecord(sampler_id, base, body.model_path, live))
        return sampler_id

    # Housekeeping

    def sweep(self) -> None:
        """Drops old outcomes and silent sessions."""
        self.promises.sweep()
        for session in self.registry.silent_since(time.time() - self.settings.session_timeout_s):
            self.registry.finish(session)

    def reap(self) -> None:
        """Deletes expired checkpoints. Reads every header, so it runs beside the loop; the store holds no state to guard."""
        try:
            self.store.reap()
        except OSError as error:
            sys.stderr.write(f"local service: could not reap expired checkpoints: {error}\n")

    # On the torch thread

    def _kernel(self, base: Base) -> Kernel:
        if base.name not in self._kernels:
            weights = Weights(base.shape, torch.from_numpy(base.parameters()))
            self._kernels[base.name] = independent_kernel(base.shape, weights)
        return self._kernels[base.name]

    def _learner(self, base: Base, flat: Any, groups: tuple[str, ...]) -> Learner:
        return Learner(self._kernel(base), flat, set(TRAIN_GROUPS) - set(groups))

    def _load_sampler(self, base: Base, info: CheckpointInfo) -> LiveSampler:
        flat = torch.from_numpy(self.store.load(info.id, base.shape).parameters).clone()
        return LiveSampler(self._kernel(base), Weights(base.shape, flat))

    def _base_sampler(self, base: Base) -> LiveSampler:
        if base.name not in self._base_samplers:
            weights = Weights(base.shape, torch.from_numpy(base.parameters()))
            self._base_samplers[base.name] = LiveSampler(self._kernel(base), weights)
        return self._base_samplers[base.name]

    def _save(
        self,
        model: Model,
        checkpoint: CheckpointId,
        contents: Contents,
        body: requests.SaveWeights | requests.SaveWeightsForSampler,
    ) -> dict[str, Any]:
        overwrite = isinstance(body, requests.SaveWeights) and body.overwrite
        description = model.describe(body.user_metadata)
        try:
            if self.faults.take("checkpoint_write", "before") is not None:
                raise OSError(errno.ENOSPC, "No space left on device (a fault on demand)")
            self.store.save(checkpoint, model.base.shape, contents, description, ttl_s=body.ttl_seconds, overwrite=overwrite)
        except OSError as error:
            text = f"{checkpoint.path} cannot be written in {self.store.root}: {error.strerror or error}"
            raise StorageError(text) from error
        return {"path": checkpoint.path}

    # Promises

    def _new_run(self, model: Model, make: Callable[[], Outcome]) -> Promise:
        request_id = f"{model.id}:0"
        if (known := self.promises.find(request_id)) is not None:
            return known
        self.registry.models[model.id] = model
        promise = self.promises.open(request_id, model_id=model.id)
        self._start(promise, make)
        return promise

    def _in_turn(
        self, model: Model, sequence_id: int | None, work: Callable[[], Outcome], then: Callable[[], None] | None = None
    ) -> Promise:
        """The promise of (model, sequence number).

        `work` runs on the torch thread when its turn comes, `then` on the loop after it.
        """
        if sequence_id is None or sequence_id < 1:
            raise Refusal("a training operation needs a seq_id from 1", status=422)
        request_id = f"{model.id}:{sequence_id}"
        if (known := self.promises.find(request_id)) is not None:
            return known
        promise = self.promises.open(request_id, model_id=model.id)
        if sequence_id < model.turns.next:
            promise.resolve(Refusal(f"{request_id} was done, and its outcome dropped after its grace period"))
            return promise
        if not model.turns.admit(sequence_id, lambda: self._start(promise, work, then)):
            self.promises.lose(request_id)
            raise Refusal("too many operations wait for earlier sequence numbers", status=429)
        return promise

    def _start(self, promise: Promise, work: Callable[[], Outcome], then: Callable[[], None] | None = None) -> None:
        future = self.worker.call(work)

        def finish(_: object) -> None:
            error = future.exception()
            if error is None and then is not None:
                then()
            promise.resolve(error if error is not None else future.result())

        future.add_done_callback(finish)


def _check_optimizer(config: requests.OptimizerConfig | None) -> None:
    if config is not None and config.type != "adamw":
        raise Refusal(f"optimizer {config.type!r} is not served (served: adamw)")


def _same_base(asked: str | None, saved: str) -> Base:
    if asked is not None and asked != saved:
        raise Refusal(f"the checkpoint is of base model {saved!r}, not {asked!r}")
    return find_base(saved)


def _restore(learner: Learner, contents: Contents, checkpoint: CheckpointId) -> None:
    if contents.first is None or contents.second is None:
        raise NotFound(f"{checkpoint.path} holds no optimizer state (save_state makes one that does)")
    learner.restore_optimizer(torch.from_numpy(contents.first), torch.from_numpy(contents.second), contents.steps)


def _array(tensor: Any) -> Any:
    return tensor.detach().numpy()


def _texts(metadata: dict[str, Any] | None) -> dict[str, str]:
    return {key: str(value) for key, value in (metadata or {}).items()}
