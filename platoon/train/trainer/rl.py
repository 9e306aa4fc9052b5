"""`trainer: rl`: policies learn from groups of rollouts that agents play with them.

The rollouts side is built behind `Rollouts`: a source of settled groups, and what its agents need while the run lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from platoon.config.numbers import score
from platoon.errors import PlatoonError
from platoon.train.checkpoints.dispatch_files import DispatchParticipant, named_groups
from platoon.train.checkpoints.kept_groups import GroupStore
from platoon.train.checkpoints.rows import checkpoint_rows
from platoon.train.config_defs.run import RunConfig
from platoon.train.dataset_order.order import total_steps
from platoon.train.dispatch.setup import planned_steps, run_order
from platoon.train.dispatch.source import RolloutSource, TrainInterrupted
from platoon.train.step.metrics import step_metrics
from platoon.train.step.settings import StepSettings
from platoon.train.step.step import TrainStep
from platoon.train.trainer.api import Run, TrainerBase, TrainerNeeds
from platoon.train.trainer.settings import StepResult


class Rollouts(Protocol):
    """The rollouts of one start.

    source: made before anything is sampled. prepare: called before the launch checkpoint, to refuse what could not
    open. open: called when every policy is published, before the source starts.
    """

    @property
    def source(self) -> RolloutSource: ...

    @property
    def store(self) -> GroupStore: ...

    async def prepare(self) -> None: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...


class RlTrainer(TrainerBase):
    """tasks: train tasks by entry. make_rollouts: builds the rollouts of a start, once its training clients are open.

    harnesses: what the harness specs of entries say, by label.
    """

    def __init__(
        self,
        config: RunConfig,
        tasks: Mapping[str, Sequence[str]],
        make_rollouts: Callable[[Run], Rollouts],
        harnesses: Mapping[str, Any] | None = None,
    ) -> None:
        self._config, self._make_rollouts, self._harnesses = config, make_rollouts, harnesses or {}
        self._order = run_order(config, tasks)
        self._thresholds = {entry.label: entry.success_threshold for entry in config.environments}
        self._settings = StepSettings.from_config(config)
        self._participant: DispatchParticipant | None = None
        self._rollouts: Rollouts | None = None

    def needs(self) -> TrainerNeeds:
        return TrainerNeeds(atomic_steps=False, fail_closed_updates=False, rollouts=True)

    def identity(self) -> Mapping[str, Any]:
        return {"harness": self._harnesses} if self._harnesses else {}

    def planned_steps(self) -> int:
        return planned_steps(self._config, self._order)

    def steps_per_epoch(self) -> float:
        return float(total_steps(self._order, self._config.train.batch_size, 1, None))

    def check(self, run: Run) -> None:
        self._participant = DispatchParticipant(run.settings.run_dir)
        run.participants.register(self._participant)

    async def prepare(self, run: Run) -> None:
        assert self._participant is not None
        self._rollouts = rollouts = self._make_rollouts(run)
        await rollouts.prepare()
        if self._participant.found is not None:
            await asyncio.to_thread(rollouts.source.restore, self._participant.found)
        self._participant.source, self._participant.start = rollouts.source, run.start
        # Groups that settled after the checkpoint of a killed start belong to nothing.
        rows = checkpoint_rows(run.settings.run_dir)
        named = await asyncio.to_thread(named_groups, run.settings.run_dir, rows)
        await asyncio.to_thread(rollouts.store.prune, named)

    async def ready(self, run: Run) -> None:
        assert self._rollouts is not None
        await self._rollouts.open()
        if run.steps_left:
            await self._rollouts.source.start()

    async def run_steps(self, run: Run) -> None:
        assert self._rollouts is not None
        source = self._rollouts.source
        specs = run.settings.specs
        reward = ""
        while run.steps_left and not run.stop.asked:
            place = f"step {run.step + 1} of {self.planned_steps()}"
            trained = {policy.id: policy for policy in run.trained}
            step = TrainStep(source, trained, self._settings, run.waits, partial(_tell, run, place, reward))
            try:
                result = await step.run()
            except TrainInterrupted:
                return
            metrics = await asyncio.to_thread(step_metrics, result, specs, self._thresholds, source.blocked_shares())
            if run.steps_left == 1 and (cause := source.nothing_measured()) is not None:
                # Before the step ends: nothing is saved, so the same command plays the groups again.
                raise PlatoonError(f"not one rollout of the whole plan gave anything to train on; the newest, {cause}")
            source.committed(result.fates)
            await run.end_step(StepResult(result.moved, result.rows_digest, metrics))
            source.step_started()
            if "train/reward" in metrics:
                reward = f", last reward {score(metrics['train/reward'])}"

    def has_unsaved_work(self) -> bool:
        """Groups that settled and no step consumed: short jobs with long rollouts would else never come forward."""
        return self._rollouts is not None and bool(self._rollouts.source.capture()["kept"]["groups"])

    async def close(self, run: Run) -> None:
        if self._rollouts is not None:
            rollouts, self._rollouts = self._rollouts, None
            await rollouts.source.close()
            await rollouts.close()


def _tell(run: Run, place: str, reward: str, text: str) -> None:
    # The least important last: a narrow terminal leaves it out.
    run.tell("training", f"{place}{reward}, {text}")
