"""`evaluate`: from a resolved configuration and weights to a report and a receipt.

Idempotent and resumable: rollouts that are done are kept, and an evaluation that is complete only writes its report and receipt.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platoon import exits
from platoon.config.text import counted, quoted
from platoon.errors import ConfigError, PlatoonError, Problem, ServiceError
from platoon.eval.config_defs import EvaluationConfig
from platoon.eval.opening import MAIN, OpenedPolicy, OpenRequest, open_nobody, open_policy, without_model
from platoon.eval.plan import PlannedRollout, plan_rollouts
from platoon.eval.results import REPORTS, Results, Weights, provenance
from platoon.eval.runner import Play, Progress, play_all
from platoon.eval.store import EvaluationStore, RolloutRecord
from platoon.host.console import Console, near
from platoon.host.slurm import requeue_job
from platoon.sampling.sample_timeout import told
from platoon.train.components.entries import EntryTasks
from platoon.train.components.player import Player, rollout_settings, route_of
from platoon.train.run_directory.lease import Lease
from platoon.train.run_directory.place import refuse_target, refuse_unwritable
from platoon.train.sandboxes import run_sandboxes
from platoon.train.services import check_key, place_of
from platoon.train.trainer.renderers import early_renderers
from platoon.train.trainer.signals import EXIT_CODES, SignalHandlers, StopRequest, run_loop

MEMBER_GRACE_S = 900.0
UNBOUNDED_ROLLOUT_S = 86400.0
# Kept of a time budget for stopping rollouts and their sandboxes.
BUDGET_MARGIN_S = 60.0

OpenPolicy = Callable[[OpenRequest], AbstractAsyncContextManager[OpenedPolicy]]
MakePlay = Callable[["EvalRequest", OpenedPolicy], AbstractAsyncContextManager[Play]]


@dataclass(frozen=True)
class EvalRequest:
    """One `platoon eval`. output_dir: where rollouts and reports lie. state_dir: where embedded services keep checkpoints.

    digests: of the input files. requeue: whether the end of the time budget puts the Slurm job of this process back into the queue,
    where rollouts were done.
    """

    config: EvaluationConfig
    name: str
    weights: Weights
    entries: Sequence[EntryTasks]
    output_dir: Path
    state_dir: Path
    digests: Mapping[str, str] = field(default_factory=dict)
    receipt: Path | None = None
    time_budget_s: float | None = None
    budget_started_at: float = field(default_factory=time.monotonic)
    requeue: bool = False

    @property
    def asks(self) -> bool:
        """Whether any of its harnesses asks a model."""
        return not all(without_model(route_of(entry.config, training=False)) for entry in self.entries)


def evaluate(request: EvalRequest, console: Console, open_with: OpenPolicy = open_policy, make_play: MakePlay | None = None) -> int:
    """Plays, reports and writes the receipt; an exit code. Raises PlatoonError for what cannot go on."""
    if request.receipt is not None:
        refuse_target(request.receipt, "--receipt")
    store = EvaluationStore(request.output_dir, provenance(request.config, request.weights, request.digests))
    store.check()
    plan = plan_rollouts(
        [(entry.label, entry.tasks) for entry in request.entries], request.config.inference.workflow.num_rollouts_per_task
    )
    if not plan:
        raise ConfigError(Problem(f"split {quoted(request.config.split)} lists no task", key="split"))
    own = request.config.inference
    kept = store.finished(plan, retry_errored=own.retry_errored) if own.resume else {}
    if len(kept) < len(plan):
        if request.asks:
            check_key([request.config.model_spec()])
            early_renderers({"inference": request.config.model_spec()})
        refuse_unwritable(request.output_dir, "--output-dir")
    began = time.monotonic()
    start = _Start(request, store, plan, kept, console, open_with if request.asks else open_nobody, make_play or _player)
    try:
        reason, records = run_loop(start.play())
    finally:
        if len(kept) < len(plan) and request.output_dir.exists():
            store.add_elapsed(time.monotonic() - began)
    if reason is not None:
        console.say(f"stopped after {reason}: {len(records)} of {counted(len(plan), 'rollout')} are done; the same command goes on")
        if request.requeue and reason == "budget" and len(records) > len(kept):
            requeue_job(console.say)
        return EXIT_CODES[reason]
    results = Results(request.name, request.config, request.weights, store, list(records.values()), request.digests)
    idle = "already evaluated, nothing to do; " if len(kept) == len(plan) else ""
    console.say(f"evaluation {request.name}: {idle}{results.publish(request.receipt)}")
    console.say(f"report in {near(store.directory / REPORTS)}")
    return exits.DONE


@dataclass(frozen=True)
class _Start:
    """One process lifetime of an evaluation."""

    request: EvalRequest
    store: EvaluationStore
    plan: Sequence[PlannedRollout]
    kept: Mapping[PlannedRollout, RolloutRecord]
    console: Console
    open_with: OpenPolicy
    make_play: MakePlay

    async def play(self) -> tuple[str | None, dict[PlannedRollout, RolloutRecord]]:
        """Why it stopped early (None when it did not), and what is done. Raises ServiceError when the service died."""
        if len(self.kept) == len(self.plan):
            return None, dict(self.kept)
        request, stop = self.request, StopRequest()
        request.output_dir.mkdir(parents=True, exist_ok=True)
        stage = f"evaluation {request.name}"
        spec = request.config.model_spec()
        self.console.progress(stage, "starting", place_of(spec) if request.asks else "")
        if request.asks:
            self.console.say(told([spec.sample_timeout]))

        def tell(progress: Progress) -> None:
            self.console.progress(stage, str(progress), "rollouts" if progress.done < progress.total else "")

        with Lease(request.output_dir) as lease, SignalHandlers(stop, self.console.say):
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(run_sandboxes(request.output_dir, self.console))
                await stack.enter_async_context(_within_budget(request, stop))
                opened = await stop.unless_asked(stack.enter_async_context(self.open_with(self._opening())))
                if opened is None:
                    return stop.reason, dict(self.kept)
                failure = await stack.enter_async_context(_watched(opened, lease, stop))
                play = await stack.enter_async_context(self.make_play(request, opened))
                records = await play_all(
                    self.plan,
                    self.kept,
                    play=play,
                    store=self.store,
                    workers=request.config.inference.workflow.num_concurrent_workers,
                    stop=stop.event,
                    limit_s=self._limit_s(),
                    tell=tell,
                )
        if failure:
            raise failure[0]
        return stop.reason if len(records) < len(self.plan) else None, records

    def _opening(self) -> OpenRequest:
        config, weights = self.request.config, self.request.weights
        log_path = self.request.output_dir / "logs" / "service.log"
        return OpenRequest(
            config.model_spec(), weights.path, weights.version, config.deterministic, self.request.state_dir, log_path
        )

    def _limit_s(self) -> float:
        timeouts = [self.request.config.rollout_config(entry.config).timeout for entry in self.request.entries]
        bounded = [timeout for timeout in timeouts if timeout is not None]
        return max(bounded) + MEMBER_GRACE_S if len(bounded) == len(timeouts) else UNBOUNDED_ROLLOUT_S


@asynccontextmanager
async def _watched(opened: OpenedPolicy, lease: Lease, stop: StopRequest) -> AsyncIterator[list[PlatoonError]]:
    """Asks for a stop when the service ends by itself or the directory is no longer ours; what it was is in the list."""
    failure: list[PlatoonError] = []

    async def service() -> None:
        assert opened.died is not None
        failure.append(ServiceError(await opened.died()))
        stop.event.set()

    async def directory() -> None:
        failure.append(await lease.lost())
        stop.event.set()

    async with _beside(directory(), service() if opened.died is not None else None):
        yield failure


@asynccontextmanager
async def _within_budget(request: EvalRequest, stop: StopRequest) -> AsyncIterator[None]:
    """Asks for a stop when the time budget ends."""

    async def budget(budget_s: float) -> None:
        ends_at = request.budget_started_at + budget_s - min(BUDGET_MARGIN_S, budget_s / 4)
        await asyncio.sleep(max(0.0, ends_at - time.monotonic()))
        stop.ask("budget")

    async with _beside(budget(request.time_budget_s) if request.time_budget_s is not None else None):
        yield


@asynccontextmanager
async def _beside(*works: Coroutine[Any, Any, None] | None) -> AsyncIterator[None]:
    """Runs what there is of these until the block ends."""
    tasks = [asyncio.create_task(work) for work in works if work is not None]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _player(request: EvalRequest, opened: OpenedPolicy) -> AsyncIterator[Play]:
    """Plays through a gateway that ends with the block."""
    from platoon.gateway.service import ModelGateway

    gateway = ModelGateway({MAIN: opened.runtime})
    config = request.config
    players = {
        entry.label: Player(
            entry,
            route_of(entry.config, training=False),
            rollout_settings(config.rollout_config(entry.config)),
            gateway,
            policy=MAIN,
            roles={},
            seed=config.seed,
        )
        for entry in request.entries
    }

    async def play(rollout: PlannedRollout, directory: Path) -> Any:
        player = players[rollout.entry]
        return await player.play(rollout.task_id, position=rollout.position, member=rollout.index, output_dir=directory)

    try:
        yield play
    finally:
        await gateway.close()
