"""`trainer: sft`: supervised training of main on conversations.

Steps go through shuffled passes over the data; a step's loss is the mean over its trained tokens. Nobody samples the policy
meanwhile, so a step publishes nothing. A resume goes on at the next step: place in the data is a function of the step.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from platoon.artifacts.canonical import canonical_digest
from platoon.artifacts.digests import hex_of, sha256_bytes
from platoon.config.numbers import score
from platoon.config.text import counted
from platoon.errors import ConfigError, Problem
from platoon.rows.supervised import supervised_block, supervised_rows
from platoon.sampling.renderer import Renderer
from platoon.train.checkpoints.participants import StateWriter
from platoon.train.config_defs.run import RunConfig
from platoon.train.objectives.loss import LossSettings
from platoon.train.policy.learner import UpdateResult
from platoon.train.policy.spec import MAIN
from platoon.train.policy.wire import wire_rows
from platoon.train.trainer.api import Run, TrainerBase
from platoon.train.trainer.settings import StepResult
from platoon.train.trainer.sft_data import (
    Conversation,
    RenderedConversation,
    batches,
    data_digest,
    read_conversations,
    render_all,
    samples,
)

LOSS = LossSettings("cross_entropy", {})


class SftTrainer(TrainerBase):
    """files: of conversations, by their names for messages. renderer: makes that of a policy whose training client is open."""

    def __init__(
        self,
        config: RunConfig,
        files: Mapping[str, Path],
        max_length: int | None,
        renderer: Callable[[Run, str], Awaitable[Renderer]],
    ) -> None:
        self._config, self._max_length, self._renderer = config, max_length, renderer
        self._conversations: list[Conversation] = read_conversations(files)
        self._digest = data_digest(self._conversations)
        self._rendered: list[RenderedConversation] = []
        self._place = _SftPlace(self)
        self.fingerprint = ""

    def identity(self) -> Mapping[str, Any]:
        return {"data": self._digest}

    def planned_steps(self) -> int:
        train = self._config.train
        plans = [train.max_training_steps] if train.max_training_steps is not None else []
        if train.num_epochs is not None:
            plans.append(math.ceil(len(self._conversations) * train.num_epochs / train.batch_size))
        return min(plans)

    def steps_per_epoch(self) -> float:
        return len(self._conversations) / self._config.train.batch_size

    def preview(self, renderers: Mapping[str, Renderer]) -> None:
        """Renders a few conversations that differ in kind: what refuses those refuses most of the data."""
        if MAIN in renderers:
            render_all(samples(self._conversations), renderers[MAIN], self._max_length)

    def check(self, run: Run) -> None:
        run.participants.register(self._place)
        self._place.run = run

    async def prepare(self, run: Run) -> None:
        renderer = await self._renderer(run, MAIN)
        self._rendered, skipped = await asyncio.to_thread(render_all, self._conversations, renderer, self._max_length)
        if skipped:
            run.console.say(
                f"{skipped} of {counted(len(self._conversations), 'conversation')} have nothing to train and are left out"
            )
        if not self._rendered:
            raise ConfigError(Problem("no conversation has a token to train", key="trainer_options.data"))
        self.fingerprint = self._rendered_digest()
        self._place.compare()

    async def run_steps(self, run: Run) -> None:
        train = self._config.train
        todo = batches(len(self._rendered), train.batch_size, self.planned_steps(), self._config.seed, run.step)
        loss = ""
        for epoch, indices in todo:
            if run.stop.asked:
                return
            run.tell("training", f"step {run.step + 1} of {self.planned_steps()}{loss}")
            result = await self._step(run, epoch, indices)
            await run.end_step(result, sampled=False)
            loss = f", last loss {score(result.metrics['train/loss'])}"

    async def _step(self, run: Run, epoch: int, indices: Sequence[int]) -> StepResult:
        batch = [self._rendered[index] for index in indices]
        trained = sum(int(item.trained_T[1:].sum()) for item in batch)
        size = math.ceil(len(batch) / self._config.train.num_microbatches)
        learner = run.policies[MAIN].learner
        update = learner.update(LOSS)
        digest = hashlib.sha256()
        run.step_open = True
        for first in range(0, len(batch), size):
            part = batch[first : first + size]
            block = supervised_block([item.tokens_T for item in part], [item.trained_T for item in part], policy=MAIN)
            rows = await asyncio.to_thread(supervised_rows, block, trained)
            digest.update(block.digest().encode())
            await update.send(wire_rows(rows, LOSS))
        sent_at = run.clock()
        await update.submit()
        result = await update.results()
        assert result is not None
        metrics = {
            "time/train": run.clock() - sent_at,
            "train/loss": _mean_loss(result),
            "train/trained_tokens": trained,
            "train/tokens": sum(len(item.tokens_T) for item in batch),
            "train/rows": len(batch),
            "epoch": epoch,
            **{f"optimizer/{_plain_name(key)}": value for key, value in result.optimizer.items()},
        }
        return StepResult(frozenset({MAIN}), f"sha256:{digest.hexdigest()}", metrics, epoch)

    def _rendered_digest(self) -> str:
        columns = (
            column
            for item in self._rendered
            for column in (np.int64(len(item.tokens_T)).tobytes(), item.tokens_T.data, item.trained_T.data)
        )
        train = self._config.train
        plan = {"rows": hex_of(sha256_bytes(*columns)), "seed": self._config.seed, "batch_size": train.batch_size}
        return canonical_digest(plan)


class _SftPlace:
    """The key `sft` of a checkpoint row: where in the data the next step begins, and a fingerprint of rows and order."""

    name = "sft"
    keys: Sequence[str] = ("sft",)

    def __init__(self, trainer: SftTrainer) -> None:
        self.run: Run | None = None
        self._trainer = trainer
        self._found: Mapping[str, Any] | None = None

    def capture(self) -> StateWriter:
        assert self.run is not None
        epoch, place = divmod(self.run.step * self._trainer._config.train.batch_size, len(self._trainer._rendered))
        state = {"epoch": epoch, "place": place, "fingerprint": self._trainer.fingerprint}
        return lambda name: {"sft": state}

    def restore(self, row: Mapping[str, Any]) -> None:
        self._found = row.get("sft")

    def compare(self) -> None:
        """Raises ConfigError when the row a start goes on from was written for other rows or another order."""
        if self._found is not None and self._found.get("fingerprint") != self._trainer.fingerprint:
            rule = "the conversations render to other tokens than those this run trained on"
            advice = "train under another run name, or bring back the renderer and tokenizer of the run"
            raise ConfigError(Problem(rule, key="trainer_options.data", advice=advice))


def _mean_loss(result: UpdateResult) -> float:
    """The mean over trained tokens of a step, from the learner's logprobs before the update."""
    total = 0.0
    for backward in result.backwards:
        weights_T = backward.rows.inputs_T["weights"].astype(np.float64)
        total -= float((weights_T * backward.logprobs_T).sum())
    return total


def _plain_name(name: str) -> str:
    return name.replace(":", "_")
