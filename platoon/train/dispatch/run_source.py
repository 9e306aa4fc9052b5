"""The source of a run: order, ledger, permits, dispatcher and stored groups behind the protocol of `dispatch.source`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from platoon.errors import PlatoonError
from platoon.train.checkpoints.dispatch_state import DispatchState, KeptGroup, LostState, OutstandingDraw
from platoon.train.checkpoints.kept_groups import GroupStore, StoredGroup
from platoon.train.dataset_order.order import Order
from platoon.train.dispatch.dispatcher import Dispatcher, DispatchSettings, RunGroup
from platoon.train.dispatch.draw import Draw, DrawKey, Fate
from platoon.train.dispatch.lifecycle import ENDS, Entry, Ledger, State
from platoon.train.dispatch.permits import PermitPool
from platoon.train.dispatch.settled import SettledGroup
from platoon.train.dispatch.source import TrainInterrupted
from platoon.train.task_records.records import GroupRecord, TaskRecords
from platoon.train.workflow.output import GroupOutput
from platoon.train.workflow.stored import from_stored, to_stored

log = logging.getLogger(__name__)

# A taker that waits says what for this often.
WAIT_REPORT_S = 60.0


class DispatchedRollouts:
    """Implements `RolloutSource`. thresholds: reward that counts as a pass in the statistics, per entry."""

    def __init__(
        self,
        settings: DispatchSettings,
        order: Order,
        *,
        pool_size: int,
        run_group: RunGroup,
        store: GroupStore,
        stop: asyncio.Event,
        deterministic: bool = False,
        sampler: str = "auto",
        fingerprint: str = "",
        thresholds: Mapping[str, float] | None = None,
        on_fate: Callable[[Draw, Fate], None] = lambda draw, fate: None,
        report: Callable[[str], None] = log.info,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.records = TaskRecords()
        self.ledger = Ledger(self._ended)
        self._permits = PermitPool(pool_size, self._wake, now)
        self.dispatcher = Dispatcher(
            settings,
            order,
            self.ledger,
            self._permits,
            run_group=run_group,
            store=self._save,
            stopping=stop.is_set,
            on_settled=self._settled,
            now=now,
        )
        self._store, self._stop, self._deterministic = store, stop, deterministic
        self._sampler, self._fingerprint, self._thresholds = sampler, fingerprint, thresholds or {}
        self._on_fate, self._report = on_fate, report
        self._started = False
        self._newest: SettledGroup | None = None
        self._named: set[str] = set()
        self._consumed: set[str] = set()

    async def start(self) -> None:
        self._started = True
        self.dispatcher.start()

    async def take(self, *, interruptible: bool = True) -> SettledGroup:
        """As the protocol says. interruptible False: a stop request is left unheard, and this step gets its groups."""
        self.dispatcher.must_finish = not interruptible
        self.dispatcher.wake()
        while True:
            if self.dispatcher.fault is not None:
                raise _again(self.dispatcher.fault)
            if interruptible and self._stop.is_set():
                raise TrainInterrupted("stopped while waiting for groups; nothing of this step is committed")
            if (entry := self._next()) is not None:
                assert entry.settled is not None
                self.ledger.move(entry.draw.key, State.TAKEN)
                self.dispatcher.admitted += 1
                self.dispatcher.wake()
                self._newest = entry.settled
                return entry.settled
            if not self.ledger.count(State.DRAWN, State.STARTED, State.QUEUED) and not self._more_planned():
                raise ValueError("the plan holds no further group")
            await self._wait(interruptible)

    def committed(self, fates: Mapping[DrawKey, Fate]) -> None:
        for key in fates:
            if self.ledger.state(key) is not State.TAKEN:
                raise ValueError(f"draw {key} is {self.ledger.state(key)}, not taken")
        digests = {entry.settled.digest for entry in self.ledger.entries(State.TAKEN) if entry.settled and entry.draw.key in fates}
        for key, fate in fates.items():
            self.ledger.move(key, ENDS[fate])
        # What no capture names can never be asked for again.
        self._consumed |= digests - self._named
        self.dispatcher.wake()

    def dropped(self, keys: list[DrawKey]) -> None:
        """A step was given up whole: its groups wait again, in their settle order."""
        for key in keys:
            self.ledger.move(key, State.QUEUED)
        self.dispatcher.admitted -= len(keys)

    def step_started(self) -> None:
        """A step without groups yet is the same step still."""
        if self.dispatcher.admitted:
            self.dispatcher.admitted = 0
            self.dispatcher.steps_left = max(0, self.dispatcher.steps_left - 1)
            self.dispatcher.wake()

    def capture(self) -> dict[str, Any]:
        running = self.ledger.entries(State.DRAWN, State.STARTED)
        kept = sorted(self.ledger.entries(State.SETTLED, State.QUEUED, State.TAKEN), key=lambda entry: entry.order)
        state = DispatchState(
            self.dispatcher.settings.start,
            self._sampler,
            self._fingerprint,
            self.dispatcher.next_position,
            tuple(_outstanding(entry.draw) for entry in sorted(running, key=lambda entry: entry.draw.position)),
            tuple(KeptGroup(_outstanding(entry.draw), entry.settled.digest) for entry in kept if entry.settled is not None),
            self.records.capture(),
        )
        self._named |= state.digests
        return state.to_dict()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Raises PlatoonError for a state or a kept group that cannot be read."""
        assert not self._started
        before = DispatchState.from_dict(state)
        self.dispatcher.next_position = before.next_position
        self._named |= before.digests
        self.records.restore(before.records)
        for kept in before.kept:
            try:
                output = from_stored(self._store.load(kept.digest))
            except (KeyError, TypeError, ValueError) as error:
                raise LostState(f"stored group {kept.digest}: {type(error).__name__}: {error}") from error
            self.ledger.enter_settled(SettledGroup(_draw(kept.draw), output, kept.digest))
        for draw in before.outstanding:
            self.dispatcher.reissue(_draw(draw))
        if before.fingerprint != self._fingerprint:
            log.warning("what decides the order of tasks has changed; drawing goes on at position %d", before.next_position)

    def blocked_shares(self) -> dict[str, float]:
        return self.dispatcher.holdups.shares()

    def nothing_measured(self) -> str | None:
        if self._newest is None or self.records.measured:
            return None
        draw = self._newest.draw
        return f"task {draw.task_id!r} of entry {draw.entry!r}: {self._newest.output.cause}"

    def awaited(self) -> str:
        """What a taker waits for, for a person."""
        running = self.dispatcher.running()
        waiting = self.ledger.entries(State.STARTED)
        names = [
            f"task {draw.task_id} of {draw.entry} at position {draw.position} ({running.get(draw.key, 0.0):.0f} s)"
            for draw in (entry.draw for entry in waiting)
        ]
        if names:
            return f"{len(names)} running groups, the oldest: {', '.join(names[:3])}"
        return f"a group to start, held up by {self.dispatcher.holdups.reason or 'nothing'}"

    async def close(self) -> None:
        await self.dispatcher.close()
        for digest in self._consumed:
            self._store.discard(digest)
        self._consumed.clear()

    def _next(self) -> Entry | None:
        queued = self.ledger.entries(State.QUEUED)
        if not self._deterministic:
            return min(queued, key=lambda entry: entry.order, default=None)
        first = min(queued, key=lambda entry: entry.draw.position, default=None)
        ahead = min((entry.draw.position for entry in self.ledger.entries(State.DRAWN, State.STARTED)), default=None)
        return first if first is not None and (ahead is None or first.draw.position < ahead) else None

    def _more_planned(self) -> bool:
        dispatcher = self.dispatcher
        return dispatcher.steps_left * dispatcher.settings.batch > dispatcher.admitted

    async def _wait(self, interruptible: bool) -> None:
        self.dispatcher.settled.clear()
        waits = [asyncio.ensure_future(self.dispatcher.settled.wait())]
        if interruptible:
            waits.append(asyncio.ensure_future(self._stop.wait()))
        try:
            done, _ = await asyncio.wait(waits, timeout=WAIT_REPORT_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if not done:
            self._report(f"waiting for {self.awaited()}")

    async def _save(self, draw: Draw, output: GroupOutput) -> str:
        consumed, self._consumed = self._consumed, set()
        return await asyncio.to_thread(self._exchange, to_stored(output, draw.key), consumed)

    def _exchange(self, stored: StoredGroup, consumed: set[str]) -> str:
        """Stores a group and deletes consumed ones; in a thread."""
        digest = self._store.save(stored)
        for other in consumed:
            self._store.discard(other)
        return digest

    def _settled(self, group: SettledGroup) -> None:
        draw, output = group.draw, group.output
        rewards = tuple(member.reward for member in output.members if member.trainable and member.reward is not None)
        threshold = self._thresholds.get(draw.entry, 1.0)
        self.records.settled(GroupRecord(draw.start, draw.seq, _name(draw), output.verdict, rewards, threshold))

    def _ended(self, draw: Draw, fate: Fate) -> None:
        self.records.ended(_name(draw), fate)
        self._on_fate(draw, fate)

    def _wake(self) -> None:
        self.dispatcher.wake()


def _again(fault: BaseException) -> BaseException:
    """The fault for one more taker; an error that is not ours keeps its type as the cause."""
    if isinstance(fault, PlatoonError):
        return fault
    error = PlatoonError(f"groups can no longer be run or stored: {type(fault).__name__}: {fault}")
    error.__cause__ = fault
    return error


def _name(draw: Draw) -> str:
    return f"{draw.entry}::{draw.task_id}"


def _outstanding(draw: Draw) -> OutstandingDraw:
    return OutstandingDraw(draw.start, draw.seq, draw.entry, draw.task_id, draw.position, draw.pool_index)


def _draw(draw: OutstandingDraw) -> Draw:
    return Draw(draw.start, draw.seq, draw.position, draw.entry, draw.task_id, draw.pool_index)
