"""`TrainerRun`: one start of a run, from its checks to its closing, the same for every trainer.

The phases are data, run in order, and everything opened is closed in the reverse order on every path. A checkpoint row is the only
thing that makes progress count: a start that ends anywhere else goes on from the row before.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from platoon.host.console import Console
from platoon.train.checkpoints.participants import Participants
from platoon.train.checkpoints.pruning import Pruner
from platoon.train.checkpoints.resume import StartPoint, find_start_point, next_start
from platoon.train.checkpoints.rows import checkpoint_rows, policy_file
from platoon.train.checkpoints.saving import FINAL, Committer, Counters, interrupted_name, recovery_name
from platoon.train.policy.policy import Policy
from platoon.train.policy.service import DamagedCheckpointError, ServiceFactory, checkpoint_exists
from platoon.train.policy.spec import MAIN
from platoon.train.policy.waits import Waits, together
from platoon.train.run_directory.lease import Lease, LeaseLost
from platoon.train.run_directory.provenance import add_provenance, provenance, write_provenance
from platoon.train.trainer.api import Trainer
from platoon.train.trainer.budget import TimeBudget
from platoon.train.trainer.closing import Closing
from platoon.train.trainer.metrics_log import MetricsLog
from platoon.train.trainer.settings import RunSettings, StepResult
from platoon.train.trainer.signals import STOPS, SignalHandlers, StopRequest, Watchdog

TELL_EVERY_S = 10.0
STARTING = "starting"


class TrainerRun:
    """One start. `run()` is called once; trainers use the public attributes from their hooks.

    services: awaited watchers of embedded services; each returns the reason when its service died.
    """

    def __init__(
        self,
        settings: RunSettings,
        trainer: Trainer,
        factory: ServiceFactory,
        console: Console,
        *,
        services: Mapping[str, Callable[[], Awaitable[str]]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        handle_signals: bool = True,
    ) -> None:
        self.settings, self.trainer, self.factory, self.console, self.clock = settings, trainer, factory, console, clock
        self.stop = StopRequest()
        self.participants = Participants()
        self.waits = Waits(self._waiting_for)
        self.policies: dict[str, Policy] = {}
        self.start_point = StartPoint()
        self.start = 1
        self.step = 0
        self.steps_done = 0
        self.rows_digest = ""
        self.ended = False
        self.step_open = False
        self.metrics = MetricsLog(settings.run_dir)
        self._services, self._handle_signals = services or {}, handle_signals
        self._closing = Closing()
        self._budget = TimeBudget(settings.time_budget_s, clock, settings.budget_started_at)
        self._committer: Committer | None = None
        self._pruner: Pruner | None = None
        self._stage = self._detail = self._awaited = ""
        self._epoch: int | None = None
        # State paths that the service has and cannot read.
        self._damaged: set[str] = set()
        self._step_began = 0.0
        # Of the save and the publication that followed the last step: they are told in the row of the next one.
        self._seconds = {"save": 0.0, "publish": 0.0}

    @property
    def trained(self) -> list[Policy]:
        """The trained policies, main first."""
        return [policy for policy in self.policies.values() if policy.spec.trainable]

    @property
    def planned_steps(self) -> int:
        return self.trainer.planned_steps()

    @property
    def steps_left(self) -> int:
        return max(0, self.planned_steps - self.step)

    def tell(self, stage: str, detail: str = "") -> None:
        """What the run does now, for whoever watches."""
        self._stage, self._detail = stage, detail
        self.console.progress(stage, detail)

    def _waiting_for(self, what: str) -> None:
        self._awaited = what
        self.console.progress(self._stage, self._detail, what)

    async def _tell_again(self) -> None:
        """A console that writes lines gets one a minute from this, however long a wait is."""
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            self.console.progress(self._stage, self._detail, self._awaited)

    async def run(self) -> None:
        """The whole start. Returns when the plan is done or a stop was asked (see `stop.reason`); raises what went wrong."""
        await self._closing.run(self._phases)

    async def _phases(self) -> None:
        # Nothing is trained before these end, and each may wait long for a service: a stop request ends them where they are.
        opening = (self._sessions, self._find_start, self._training_clients, self._prepare)
        for stage, phase in (
            (STARTING, self._checks),
            (STARTING, self._signals),
            ("loading the model", self._sessions),
            ("loading the model", self._find_start),
            ("loading the model", self._training_clients),
            ("preparing", self._prepare),
            ("saving what it begins with", self._launch_save),
            ("training", self._ready),
            ("training", self._steps),
            ("saving", self._exit_save),
        ):
            self.tell(stage)
            await (self.stop.unless_asked(phase()) if phase in opening else phase())
            if self.stop.asked and phase not in (self._steps, self._exit_save):
                return

    async def _checks(self) -> None:
        self.settings.run_dir.mkdir(parents=True, exist_ok=True)
        self.trainer.check(self)

    async def _signals(self) -> None:
        if self._handle_signals:
            handlers = SignalHandlers(self.stop, self.console.say).__enter__()
            self._closing.add("signal handlers", lambda: handlers.__exit__(None, None, None))
        self._watch(self._stop_at_budget())
        self._watch(self._tell_again())
        for name, died in self._services.items():
            self._watch(self._fail_when(name, died))
        if self.settings.lease is not None:
            self._watch(self._stop_when_lost(self.settings.lease))

    async def _sessions(self) -> None:
        needs = self.trainer.needs()
        for spec in self.settings.specs.values():
            sampled = needs.rollouts and spec.id in self.settings.sampled
            self.policies[spec.id] = Policy(spec, self.settings.addresses[spec.id], self.factory, self.waits, sampled=sampled)
        for policy in self.policies.values():
            self._closing.add(f"session of {policy.id}", partial(self._close_session, policy))
        await together(*(policy.connect() for policy in self.policies.values()))

    async def _close_session(self, policy: Policy) -> None:
        await policy.close("success" if self.ended else "errored")

    async def _find_start(self) -> None:
        run_dir = self.settings.run_dir
        self.start = next_start(checkpoint_rows(run_dir))

        async def alive(policy: str, path: str) -> bool:
            return path not in self._damaged and await checkpoint_exists(
                self.factory, self.settings.addresses[policy], path, self.waits
            )

        async def lacks(row: Mapping[str, Any]) -> str | None:
            return await asyncio.to_thread(self.participants.lacks, row)

        trained = [policy.id for policy in self.trained]
        self.start_point = point = await find_start_point(run_dir, trained, alive, lacks, self.settings.identity_digest)
        self.step, self.rows_digest = point.step, point.rows_digest
        write_provenance(run_dir, provenance(self.start))
        for reason in dict.fromkeys(passed.reason for passed in point.passed_over):
            names = ", ".join(passed.name for passed in point.passed_over if passed.reason == reason)
            self.console.say(f"warning: checkpoints passed over: {names}: {reason}")
        if point.passed_over:
            add_provenance(run_dir, "policies_restore", [passed.name for passed in point.passed_over])
        if point.row is not None:
            self.participants.check(point.row, str(policy_file(run_dir, MAIN)))
            self.console.say(f"start {self.start}: going on after step {self.step}, from checkpoint {point.row['name']}")
        self.metrics.begin(self.step)

    async def _training_clients(self) -> None:
        fail_closed = self.trainer.needs().fail_closed_updates
        while True:
            try:
                await together(*(self._open(policy, fail_closed) for policy in self.policies.values()))
            except DamagedCheckpointError as error:
                self.console.say(f"{error}: going back to the checkpoint before")
                self._damaged.add(error.state_path)
                await self._find_start()
            else:
                return

    async def _open(self, policy: Policy, fail_closed: bool) -> None:
        if not policy.spec.trainable:
            await policy.publish_frozen()
            return
        begin = self.start_point.of(policy.id)
        await policy.open(begin.state_path, self.settings.timeouts, fail_closed=fail_closed)
        policy.version, policy.learner.optimizer_steps = begin.version, begin.optimizer_steps

    async def _prepare(self) -> None:
        if self.start_point.row is not None:
            self.participants.restore(self.start_point.row)
        self._closing.add("the trainer", lambda: self.trainer.close(self))
        await self.trainer.prepare(self)

    async def _launch_save(self) -> None:
        self._committer = Committer(self.settings.run_dir, self.trained, self.participants)
        versions = {policy.id: policy.version for policy in self.trained}
        await self._save_and_publish(recovery_name(self.step), versions, publish=set(versions))
        await self.trainer.started(self)

    async def _ready(self) -> None:
        if self.settings.keep_recovery is not None:
            self._pruner = Pruner(self.settings.run_dir, self.settings.keep_recovery, self.settings.largest_staleness, self)
            self._closing.add("pruning", self._pruner.close)
        if self.settings.watchdog is not None:
            timeout_s, exit_code = self.settings.watchdog
            watchdog = await Watchdog(timeout_s, exit_code, self.console.say).__aenter__()
            self._closing.add("the watchdog", lambda: watchdog.__aexit__(None, None, None))
        await self.trainer.ready(self)

    async def _steps(self) -> None:
        self._step_began = self.clock()
        if self.steps_left:
            await self.trainer.run_steps(self)
        self.ended = self.steps_left == 0

    async def _exit_save(self) -> None:
        if not self.steps_done and (self.ended or not self.trainer.has_unsaved_work()):
            return
        versions = {policy.id: policy.version for policy in self.trained}
        if self.ended:
            await self._save_and_publish(FINAL, versions, publish=set())
        elif not (self.step_open and self.trainer.needs().atomic_steps):
            await self._save_and_publish(interrupted_name(self.step), versions, publish=set())

    async def end_step(self, result: StepResult, *, sampled: bool = True) -> None:
        """Ends one step: counters, the metrics row, the save the cadence asks for, one publication of each policy that moved.

        sampled: False when nobody samples the policies: such a step publishes nothing and saves on the cadence alone. Raises
        RuntimeError outside the steps of a start.
        """
        if self._committer is None:
            raise RuntimeError("a step ends only inside a start")
        await self._check_lease()
        self.step += 1
        self.rows_digest = _chained(self.rows_digest, result.rows_digest)
        self._epoch = result.epoch
        taken_s = self.clock() - self._step_began
        row = {**result.metrics, "time/step": taken_s, "time/save": self._seconds["save"], "time/publish": self._seconds["publish"]}
        row |= {f"{policy.spec.prefix}policy_version": policy.version for policy in self.trained}
        row |= {"optimizer_steps": self.trained[0].learner.optimizer_steps, "rows_digest": result.rows_digest}
        await asyncio.to_thread(self.metrics.append, self.step, self.start, row)
        self._budget.step_took(taken_s)
        self._seconds = {"save": 0.0, "publish": 0.0}
        moved = result.moved if sampled else frozenset()
        versions = {policy.id: policy.version + (policy.id in moved) for policy in self.trained}
        name = self.settings.cadence.name(self.step) if result.moved else None
        if name is not None:
            await self._save_and_publish(name, versions, publish=set(moved))
        else:
            began = self.clock()
            await together(*(policy.publish() for policy in self.trained if policy.id in moved))
            self._seconds["publish"] = self.clock() - began
        self._step_began = self.clock()
        self.step_open = False
        self.steps_done += 1

    async def _save_and_publish(self, name: str, versions: Mapping[str, int], publish: set[str]) -> None:
        assert self._committer is not None
        await self._check_lease()
        began = self.clock()
        counters = Counters(self.step, self.start, self.rows_digest, versions, self._epoch)
        saved = await self._committer.save(name, counters)
        saved_at = self.clock()
        self._budget.save_took(saved_at - began)
        moved = [policy for policy in self.trained if policy.id in publish]
        await together(*(policy.publish_saved(saved[policy.id].sampler_path, versions[policy.id]) for policy in moved))
        self._seconds = {"save": saved_at - began, "publish": self.clock() - saved_at}
        if self._pruner is not None:
            self._pruner.saved()

    async def _stop_at_budget(self) -> None:
        while (left_s := self._budget.left_s()) is not None:
            if left_s <= 0:
                self.console.say(f"the time budget is used up: stopping; {STOPS}")
                self.stop.ask("budget")
                return
            await asyncio.sleep(min(left_s, 10.0))

    async def _fail_when(self, name: str, died: Callable[[], Awaitable[str]]) -> None:
        self.waits.fail(f"the training service {name} ended: {await died()}")

    async def _stop_when_lost(self, lease: Lease) -> None:
        lost = await lease.lost()
        self.console.say(str(lost))
        if lost.may_save:
            self.stop.ask("lease")
        else:
            self.waits.fail(str(lost))

    async def _check_lease(self) -> None:
        """Raises LeaseLost when the run directory may be another's, before a row goes into it."""
        if self.settings.lease is not None:
            try:
                await asyncio.to_thread(self.settings.lease.check)
            except LeaseLost as lost:
                if not lost.may_save:
                    raise
                self.stop.ask("lease")
            except OSError:
                # The row itself says what is wrong with the disk.
                pass

    def _watch(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._closing.add("a watcher", lambda: _cancelled(task))


def _chained(before: str, rows: str) -> str:
    return f"sha256:{hashlib.sha256(f'{before} {rows}'.encode()).hexdigest()}"


async def _cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
