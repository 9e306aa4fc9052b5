"""Starts groups: one coroutine that draws the next position whenever plan, horizon and permits have room.

It assumes one event loop. It guarantees that a draw enters the ledger before its group runs, that a group is stored before it is
queued, and that the first fault which is not a group's own ends starting and reaches whoever takes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from platoon.config.text import counted
from platoon.errors import PlatoonError
from platoon.train.dataset_order.order import Order
from platoon.train.dispatch import horizon
from platoon.train.dispatch.draw import Draw, DrawKey
from platoon.train.dispatch.holdups import HoldUps
from platoon.train.dispatch.lifecycle import Ledger, State
from platoon.train.dispatch.permits import Lease, PermitPool
from platoon.train.dispatch.runner import RETRY_PAUSES_S, run_group_guarded
from platoon.train.dispatch.settled import SettledGroup
from platoon.train.workflow.output import GroupOutput

log = logging.getLogger(__name__)

RunGroup = Callable[[Draw, Lease], Awaitable[GroupOutput]]
StoreGroup = Callable[[Draw, GroupOutput], Awaitable[str]]


@dataclass(frozen=True)
class DispatchSettings:
    """start: number of this process lifetime. batch: groups a step. steps_left: steps of the plan not yet ended.

    bounds: staleness bound per trained policy that agents sample. group_sizes: members per entry label.
    failures_in_a_row: groups without a row, one after the other, that end the run. retry_pauses_s: before a group runs again.
    """

    start: int
    batch: int
    steps_left: int
    bounds: Mapping[str, int | None]
    group_sizes: Mapping[str, int]
    permit_release: str = "rollout"
    failures_in_a_row: int = 8
    retry_pauses_s: tuple[float, ...] = RETRY_PAUSES_S


class Dispatcher:
    """The run's starts. `changed` is set whenever something happened that a taker or the dispatcher itself may act on."""

    def __init__(
        self,
        settings: DispatchSettings,
        order: Order,
        ledger: Ledger,
        pool: PermitPool,
        *,
        run_group: RunGroup,
        store: StoreGroup,
        stopping: Callable[[], bool],
        on_settled: Callable[[SettledGroup], None] = lambda group: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self.order, self.ledger, self.pool = settings, order, ledger, pool
        self._run_group, self._store, self._stopping, self._now = run_group, store, stopping, now
        self._on_settled = on_settled
        self.holdups = HoldUps(now)
        self.next_position = 0
        self.admitted = 0
        self.steps_left = settings.steps_left
        self.changed = asyncio.Event()
        self.settled = asyncio.Event()
        self.fault: BaseException | None = None
        self._finishing = asyncio.Event()
        self._reissues: deque[Draw] = deque()
        self._seq = 0
        self._running: dict[DrawKey, tuple[asyncio.Task[None], float]] = {}
        self._failures = 0
        self._loop: asyncio.Task[None] | None = None

    def reissue(self, draw: Draw) -> Draw:
        """Draws a position of an earlier start again, ahead of the order. Returns the new draw."""
        again = replace(draw, start=self.settings.start, seq=self._next_seq())
        self.ledger.enter(again)
        self._reissues.append(again)
        return again

    def start(self) -> None:
        assert self._loop is None
        self._loop = asyncio.create_task(self._start_groups(), name="dispatcher")

    @property
    def must_finish(self) -> bool:
        """Whether the step has updated already: then groups start and settle also while the run stops."""
        return self._finishing.is_set()

    @must_finish.setter
    def must_finish(self, value: bool) -> None:
        if value:
            self._finishing.set()
        else:
            self._finishing.clear()

    def wake(self) -> None:
        self.changed.set()

    def running(self) -> dict[DrawKey, float]:
        """Seconds each running group has run, by draw."""
        return {key: self._now() - began for key, (_, began) in self._running.items()}

    async def close(self) -> None:
        """Cancels the coroutine and every group, and waits until their cleanup is done."""
        tasks = [task for task, _ in self._running.values()]
        if self._loop is not None:
            tasks.append(self._loop)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._running.clear()

    async def _start_groups(self) -> None:
        try:
            while True:
                self.changed.clear()
                reason = self._blocked()
                self.holdups.switch(reason)
                if reason is not None:
                    await self.changed.wait()
                    continue
                self._start_next()
                # Lets the group reach its first await, so that a burst of starts does not starve the loop.
                await asyncio.sleep(0)
        except Exception as error:
            self._fail(error)

    def _blocked(self) -> str | None:
        if self.fault is not None or (self._stopping() and not self.must_finish):
            return "stop"
        counts = horizon.Counts(self.ledger.pipeline, self.admitted, self.steps_left)
        if reason := horizon.blocked_by(counts, self.settings.batch, self.settings.bounds):
            return reason
        entry = self._next_entry()
        rolling = self.settings.permit_release == "rollout"
        return None if self.pool.ready_for(self.settings.group_sizes[entry], rolling=rolling) else horizon.PERMITS

    def _next_entry(self) -> str:
        if self._reissues:
            return self._reissues[0].entry
        return self.order.at(self.next_position).entry

    def _start_next(self) -> None:
        if self._reissues:
            draw = self._reissues.popleft()
        else:
            place = self.order.at(self.next_position)
            draw = Draw(self.settings.start, self._next_seq(), self.next_position, place.entry, place.task_id, place.pool_index)
            self.ledger.enter(draw)
            self.next_position += 1
        lease = self._lease(draw)
        self.ledger.move(draw.key, State.STARTED)
        task = asyncio.create_task(self._run(draw, lease), name=f"group {draw.entry}/{draw.task_id} at {draw.position}")
        self._running[draw.key] = (task, self._now())

    async def _run(self, draw: Draw, lease: Lease) -> None:
        leases = deque([lease])

        async def attempt() -> GroupOutput:
            current = leases.popleft() if leases else self._lease(draw)
            try:
                return await self._run_group(draw, current)
            finally:
                current.close()

        try:
            output = await run_group_guarded(draw, attempt, now=self._now, pauses_s=self.settings.retry_pauses_s)
            if self._stopping():
                # A scheduler signals the commands in the sandboxes as well: what they say now is no measurement. The draw stays
                # outstanding and is played again by the next start.
                await self._finishing.wait()
            digest = await self._store(draw, output)
        except Exception as error:
            self._fail(error)
            return
        finally:
            self._running.pop(draw.key, None)
        self._settle(SettledGroup(draw, output, digest))

    def _lease(self, draw: Draw) -> Lease:
        return self.pool.lease(self.settings.group_sizes[draw.entry], rolling=self.settings.permit_release == "rollout")

    def _settle(self, group: SettledGroup) -> None:
        """Runs without an await: settled and queued are one instant for a capture."""
        self.ledger.settle(group)
        self.ledger.move(group.draw.key, State.QUEUED)
        self._on_settled(group)
        self._failures = self._failures + 1 if group.output.without_rows else 0
        if self._failures >= self.settings.failures_in_a_row:
            self._fail(
                PlatoonError(
                    f"{counted(self._failures, 'group')} in a row gave nothing to train on; the newest, task "
                    f"{group.draw.task_id!r} of entry {group.draw.entry!r}: {group.output.cause}"
                )
            )
        self.settled.set()
        self.changed.set()

    def _fail(self, error: BaseException) -> None:
        if self.fault is None:
            log.error("dispatching ends: %s", error)
            self.fault = error
        self.settled.set()
        self.changed.set()

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq - 1
