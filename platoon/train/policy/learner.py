"""One policy's updates: rows go out as they are ready, the optimizer step follows at once, and only then is anything awaited.

An update is open from its first rows to its results. A policy has one open update at a time; an update that failed leaves the
model's gradients undefined, so nothing retries here: the run ends and a later start goes on from its last checkpoint.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from platoon.errors import PlatoonError, ServiceError
from platoon.train.objectives.loss import LossSettings
from platoon.train.policy.service import ServiceFactory
from platoon.train.policy.spec import PolicySpec
from platoon.train.policy.waits import Waits
from platoon.train.policy.wire import WireRows, returned_logprobs


class UpdateRejected(PlatoonError):
    """The service skipped an optimizer step, or answered with numbers that are not finite."""


@dataclass(frozen=True)
class Timeouts:
    """forward_backward_s spans the whole queue of one update."""

    forward_backward_s: float = 5400.0
    optim_step_s: float = 300.0


@dataclass(frozen=True)
class BackwardResult:
    """rows: what was sent. logprobs_T: float32, the learner's, aligned with `rows.targets_T`. metrics: the service's own."""

    rows: WireRows
    logprobs_T: npt.NDArray[np.float32]
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class UpdateResult:
    """backwards: one a microbatch with rows, in order. optimizer: the service's metrics of the step."""

    backwards: tuple[BackwardResult, ...]
    optimizer: Mapping[str, float] = field(default_factory=dict)


class Learner:
    """Updates of one policy on one training client.

    place: names policy and service in errors. before_update: awaited before the first optimizer step of an update is submitted.
    fail_closed: answers that are not finite raise UpdateRejected before the step counts.
    """

    def __init__(
        self,
        spec: PolicySpec,
        training_client: Any,
        factory: ServiceFactory,
        waits: Waits,
        timeouts: Timeouts,
        *,
        place: str = "",
        fail_closed: bool = False,
        before_update: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.spec = spec
        self.optimizer_steps = 0
        self._client, self._factory, self._waits, self._timeouts = training_client, factory, waits, timeouts
        self._fail_closed, self._before_update = fail_closed, before_update
        self.place = place or f"policy {spec.id!r}"
        self._open: PolicyUpdate | None = None

    def update(self, loss: LossSettings | None = None) -> PolicyUpdate:
        """Opens an update. Raises RuntimeError while another one is open."""
        if self._open is not None:
            raise RuntimeError(f"policy {self.spec.id!r} has an update that was not applied")
        self._open = PolicyUpdate(self, loss or self.spec.loss)
        return self._open

    def _backward(self, data: Sequence[Any], loss: LossSettings) -> Any:
        return self._client.forward_backward(data, loss.loss_fn, dict(loss.config) or None)

    def _step(self) -> Any:
        return self._client.optim_step(self._factory.adam_params(self.spec.optimizer))


class PolicyUpdate:
    """`send` any number of microbatches, `submit` the optimizer step, await `results`."""

    def __init__(self, learner: Learner, loss: LossSettings) -> None:
        self._learner, self._loss = learner, loss
        self._sent: list[tuple[WireRows, Any]] = []
        self._step: Any = None

    @property
    def has_rows(self) -> bool:
        return bool(self._sent)

    async def send(self, rows: WireRows) -> None:
        """Submits one forward/backward and does not wait for it. Rows without a row are not sent.

        Submissions go out in the order of the calls, each awaited by its caller before the next.
        """
        if len(rows):
            data = await asyncio.to_thread(self._learner._factory.datums, rows)
            self._sent.append((rows, self._learner._backward(data, self._loss)))

    async def submit(self) -> None:
        """Submits the optimizer step, where anything was sent."""
        if not self._sent:
            return
        if self._learner._before_update is not None:
            await self._learner._before_update()
        self._step = self._learner._step()

    async def results(self) -> UpdateResult | None:
        """Awaits everything; None where nothing was sent. Raises ServiceError, naming the policy, or UpdateRejected."""
        learner = self._learner
        if self._step is None:
            learner._open = None
            return None
        name = learner.place
        backwards = []
        for rows, pending in self._sent:
            what = f"forward and backward of {name}"
            output = await learner._waits.on(pending, timeout_s=learner._timeouts.forward_backward_s, what=what)
            backwards.append(self._checked(rows, output))
        what = f"the optimizer step of {name}"
        answer = await learner._waits.on(self._step, timeout_s=learner._timeouts.optim_step_s, what=what)
        metrics = dict(getattr(answer, "metrics", None) or {})
        if learner._fail_closed:
            _refuse_other_numbers(name, metrics)
        learner.optimizer_steps += 1
        learner._open = None
        return UpdateResult(tuple(backwards), metrics)

    def _checked(self, rows: WireRows, output: Any) -> BackwardResult:
        name = self._learner.place
        logprobs_T = returned_logprobs(output.loss_fn_outputs)
        if len(logprobs_T) != len(rows.targets_T):
            raise ServiceError(f"{name}: {len(logprobs_T)} logprobs came back for {len(rows.targets_T)} targets")
        metrics = dict(output.metrics or {})
        if self._learner._fail_closed:
            _refuse_other_numbers(name, metrics)
        return BackwardResult(rows, logprobs_T, metrics)


def _refuse_other_numbers(place: str, metrics: Mapping[str, float]) -> None:
    wrong = sorted(name for name, value in metrics.items() if not math.isfinite(value))
    if wrong:
        raise UpdateRejected(f"{place}: the service answered with {wrong[0]} = {metrics[wrong[0]]}")
    if metrics.get("skipped"):
        raise UpdateRejected(f"{place}: the service skipped the optimizer step")
