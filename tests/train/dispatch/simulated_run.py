"""A run's source with groups that settle when a test says so, for tests of dispatching without rollouts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from platoon.train.checkpoints.kept_groups import GroupStore
from platoon.train.dataset_order.order import Pool, build_order
from platoon.train.dispatch.dispatcher import DispatchSettings
from platoon.train.dispatch.draw import Draw, Fate
from platoon.train.dispatch.lifecycle import State
from platoon.train.dispatch.permits import Lease
from platoon.train.dispatch.run_source import DispatchedRollouts
from platoon.train.task_records.fates import Verdict
from platoon.train.workflow.output import GroupOutput, MemberOutcome

GROUP_SIZE = 2


def output(verdict: Verdict = Verdict.UNIFORM, reward: float = 1.0, status: str = "scored") -> GroupOutput:
    members = tuple(
        MemberOutcome(index, status, reward if status == "scored" else None, trainable=status == "scored")  # type: ignore[arg-type]
        for index in range(GROUP_SIZE)
    )
    return GroupOutput(None, None, members, verdict, 1.0)


class SimulatedRun:
    """One start of a run. `running` maps position to the future that settles it; `ended` lists (position, fate) in order."""

    def __init__(
        self,
        directory: Path,
        *,
        start: int = 1,
        batch: int = 2,
        steps: int = 3,
        bound: int | None = 1,
        permits: int = 6,
        tasks: int = 5,
        deterministic: bool = False,
        failures_in_a_row: int = 8,
    ) -> None:
        self.running: dict[int, asyncio.Future[GroupOutput]] = {}
        self.ended: list[tuple[int, Fate]] = []
        self.draws: list[Draw] = []
        self.on_start: Callable[[Draw], None] = lambda draw: None
        self.stop = asyncio.Event()
        pools = [Pool("default", tuple(f"task-{index}" for index in range(tasks)))]
        self.source = DispatchedRollouts(
            DispatchSettings(
                start,
                batch,
                steps,
                {"main": bound},
                {"default": GROUP_SIZE},
                retry_pauses_s=(0.0, 0.0),
                failures_in_a_row=failures_in_a_row,
            ),
            build_order("auto", pools, batch),
            pool_size=permits,
            run_group=self._run,
            store=GroupStore(directory),
            stop=self.stop,
            deterministic=deterministic,
            on_fate=lambda draw, fate: self.ended.append((draw.position, fate)),
        )

    async def _run(self, draw: Draw, lease: Lease) -> GroupOutput:
        self.draws.append(draw)
        self.on_start(draw)
        settles: asyncio.Future[GroupOutput] = asyncio.get_running_loop().create_future()

        async def member(index: int) -> None:
            async with lease.rollout(index):
                await asyncio.shield(settles)

        self.running[draw.position] = settles
        try:
            await asyncio.gather(*(member(index) for index in range(lease.count)))
        finally:
            if self.running.get(draw.position) is settles:
                del self.running[draw.position]
        return settles.result()

    async def settle(self, position: int, group: GroupOutput) -> None:
        """Ends a running group and waits until it is stored and queued."""
        self.running[position].set_result(group)
        queued = self.source.ledger.entries
        while position not in {entry.draw.position for entry in queued(State.QUEUED)}:  # noqa: ASYNC110  because a thread stores it
            await asyncio.sleep(0.001)


async def until_quiet(turns: int = 12) -> None:
    """Lets everything that can go on without outside events do so."""
    for _ in range(turns):
        await asyncio.sleep(0)
