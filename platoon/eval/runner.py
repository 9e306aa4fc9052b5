"""Plays the rollouts of a plan, a bounded number at a time, and records each when it ends.

A stop request starts nothing more, cancels what runs and waits until it has cleaned up; what is recorded stays. Rollouts do not
depend on each other: their seeds come from the plan, and the order in which they end changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platoon.config.numbers import score
from platoon.config.text import counted
from platoon.core.outcome import Outcome
from platoon.errors import ConfigError
from platoon.eval.plan import PlannedRollout
from platoon.eval.store import EvaluationStore, RolloutRecord
from platoon.train.workflow.protocol import Rollout

log = logging.getLogger(__name__)

Play = Callable[[PlannedRollout, Path], Awaitable[Rollout]]
# A cancelled rollout gets this long to stop its sandbox.
CLEANUP_LIMIT_S = 60.0


@dataclass(frozen=True)
class Progress:
    """done and errored count this plan's rollouts, kept ones included."""

    done: int
    total: int
    errored: int
    reward_sum: float

    def __str__(self) -> str:
        measured = self.done - self.errored
        mean = f", mean reward {score(self.reward_sum / measured)}" if measured else ""
        errored = f", {self.errored} without a measurement" if self.errored else ""
        return f"{self.done} of {counted(self.total, 'rollout')}{mean}{errored}"


async def play_all(
    plan: Sequence[PlannedRollout],
    kept: Mapping[PlannedRollout, RolloutRecord],
    *,
    play: Play,
    store: EvaluationStore,
    workers: int,
    stop: asyncio.Event,
    limit_s: float,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> dict[PlannedRollout, RolloutRecord]:
    """The records of all rollouts that are done, in the order of the plan; all of them unless `stop` is set.

    limit_s: a rollout that has not ended by then is cancelled and errored. Raises the first ConfigError of a rollout: it would be
    that of every other.
    """
    records = dict(kept)
    waiting = [rollout for rollout in reversed(plan) if rollout not in kept]

    async def worker() -> None:
        while waiting and not stop.is_set():
            rollout = waiting.pop()
            record = await _one(rollout, play, store, limit_s)
            if stop.is_set():
                # A scheduler signals the commands in the sandboxes as well: what they say now is no measurement.
                return
            await asyncio.to_thread(store.save, rollout, record)
            records[rollout] = record
            tell(_progress(records.values(), len(plan)))

    tell(_progress(records.values(), len(plan)))
    tasks = [asyncio.create_task(worker()) for _ in range(min(workers, len(waiting)))]
    stopping = asyncio.create_task(stop.wait())
    try:
        while (pending := [task for task in tasks if not task.done()]) and not stop.is_set():
            await asyncio.wait([*pending, stopping], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done() and task.exception() is not None:
                    await task
    finally:
        stopping.cancel()
        await _cancel([task for task in tasks if not task.done()])
    for task in tasks:
        if not task.cancelled():
            task.result()
    return {rollout: records[rollout] for rollout in plan if rollout in records}


async def _one(rollout: PlannedRollout, play: Play, store: EvaluationStore, limit_s: float) -> RolloutRecord:
    directory = await asyncio.to_thread(store.fresh, rollout)
    try:
        async with asyncio.timeout(limit_s) as limit:
            finished = await play(rollout, directory)
    except ConfigError:
        raise
    except Exception as error:
        kind = "no_answer" if isinstance(error, TimeoutError) and limit.expired() else f"unexpected:{type(error).__name__}"
        log.warning("rollout %d of task %s failed: %s", rollout.index, rollout.task_id, error, exc_info=error)
        status = "timeout" if kind == "no_answer" else "error"
        return RolloutRecord(
            rollout.entry, rollout.task_id, rollout.index, status, None, failure_kind=kind, error=str(error) or None
        )
    return _record(rollout, finished)


def _record(rollout: PlannedRollout, finished: Rollout) -> RolloutRecord:
    outcome: Outcome = finished.outcome
    return RolloutRecord(
        rollout.entry,
        rollout.task_id,
        rollout.index,
        outcome.status,
        outcome.reward,
        dict(outcome.rewards) if outcome.status == "scored" else {},
        outcome.primary if outcome.status == "scored" else "",
        outcome.failure_kind,
        None if outcome.status == "scored" else outcome.explanation,
        dict(finished.seconds),
        dict(finished.tokens),
        finished.calls,
        _plain(outcome.metadata),
        outcome.reason,
    )


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    from platoon.core.trajectory import plain

    value: dict[str, Any] = plain(metadata)
    return value


def _progress(records: Any, total: int) -> Progress:
    found = list(records)
    rewards = [record.reward for record in found if record.reward is not None]
    return Progress(len(found), total, sum(record.errored for record in found), sum(rewards))


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    if not tasks:
        return
    for task in tasks:
        task.cancel()
    _, stuck = await asyncio.wait(tasks, timeout=CLEANUP_LIMIT_S)
    if stuck:
        log.error("%d cancelled rollouts did not end within %g s", len(stuck), CLEANUP_LIMIT_S)
