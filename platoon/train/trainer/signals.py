"""Asking a run to stop, and noticing that it no longer lives.

The first INT, TERM or USR1 asks for a stop: the step ends by its rules, the run saves and exits. A scheduler and the shell may both
pass the same signal on, so an echo within a moment changes nothing; a later INT or TERM ends the process at once. USR1 is an
early warning and never counts as a first signal. On an event loop handlers only set values: nothing is raised into a save.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

from platoon import exits
from platoon.config.text import short_seconds
from platoon.host.interrupts import ENDING, Interrupts, takes_signals

WATCHDOG_CHECK_S = 60.0
WATCHDOG_WARNS_AT = 0.75

# For a person: a step that still waits for rollouts is dropped with them, one that updates is not.
STOPS = "an update under way ends first, rollouts under way are dropped, and what is done is saved"

T = TypeVar("T")

EXIT_CODES = {"INT": exits.INTERRUPTED, "TERM": exits.TERMINATED, "USR1": exits.TERMINATED, "budget": exits.TRY_AGAIN}


class StopRequest:
    """Whether, and why, the run was asked to stop. reason: a key of EXIT_CODES; the first one stays."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.reason: str | None = None

    def ask(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.event.set()

    @property
    def asked(self) -> bool:
        return self.event.is_set()

    async def unless_asked(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What `work` gives, None when a stop is asked first: it is then cancelled, and has ended. For work that has nothing to
        save."""
        task, asked = asyncio.ensure_future(work), asyncio.ensure_future(self.event.wait())
        try:
            await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for left in (task, asked):
                left.cancel()
            await asyncio.gather(task, asked, return_exceptions=True)


class SignalHandlers:
    """Installs the handlers for the life of a context, on a running loop. `Interrupts` that are there go on before and after.
    In a thread that is not the main one there are none.

    then: what ends before the stop, told with it.
    """

    def __init__(
        self, stop: StopRequest, say: Callable[[str], None], end_now: Callable[[int], None] = os._exit, *, then: str = ""
    ) -> None:
        self._stop, self._say, self._end_now, self._then = stop, say, end_now, then
        self._ending = Interrupts(say)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> SignalHandlers:
        if not takes_signals():
            return self
        self._loop = asyncio.get_running_loop()
        for number in (*ENDING, signal.SIGUSR1):
            self._before[number] = signal.getsignal(number)
            self._loop.add_signal_handler(number, self._received, number)
        outside = self._before[signal.SIGTERM]
        if isinstance(outside, Interrupts):
            self._ending = outside
            if outside.first is not None:
                self._ask(outside.first)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._loop is not None:
            for number, before in self._before.items():
                self._loop.remove_signal_handler(number)
                signal.signal(number, before or signal.SIG_DFL)

    def _received(self, number: signal.Signals) -> None:
        if number in ENDING and self._ending.received(number) == "later":
            self._say(f"{number.name} again: ending at once, without saving")
            self._end_now(exits.FAILED)
            return
        self._ask(number)

    def _ask(self, number: signal.Signals) -> None:
        if not self._stop.asked:
            self._say(f"{number.name}: stopping" + (f"; {self._then}" if self._then else ""))
        self._stop.ask(number.name.removeprefix("SIG"))


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` of what installs `SignalHandlers` at once: nothing is raised into the making of the loop, nor into its end."""
    outside = signal.getsignal(signal.SIGTERM)
    if not isinstance(outside, Interrupts):
        return asyncio.run(work)
    outside.held = True
    try:
        return asyncio.run(work)
    finally:
        outside.held = False


class Watchdog:
    """Ends the process when its event loop did not beat for `timeout_s`. A thread of its own; cleanup does not happen."""

    def __init__(
        self, timeout_s: float, exit_code: int, say: Callable[[str], None], end_now: Callable[[int], None] = os._exit
    ) -> None:
        self._timeout_s, self._exit_code, self._say, self._end_now = timeout_s, exit_code, say, end_now
        self._every_s = min(WATCHDOG_CHECK_S, timeout_s / 10)
        self._beat_at = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="platoon-watchdog", daemon=True)
        self._ticker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Watchdog:
        self._beat_at = time.monotonic()
        self._ticker = asyncio.create_task(self._tick())
        self._thread.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._over.set()
        if self._ticker is not None:
            self._ticker.cancel()
        await asyncio.to_thread(self._thread.join)

    async def _tick(self) -> None:
        while True:
            self._beat_at = time.monotonic()
            await asyncio.sleep(self._every_s / 2)

    def _watch(self) -> None:
        warned = False
        while not self._over.wait(self._every_s):
            silent_s = time.monotonic() - self._beat_at
            if silent_s > self._timeout_s:
                self._say(f"watchdog: no heartbeat for {short_seconds(silent_s)}, ending the process")
                self._end_now(self._exit_code)
                return
            if silent_s > WATCHDOG_WARNS_AT * self._timeout_s and not warned:
                warned = True
                self._say(f"watchdog: no heartbeat for {short_seconds(silent_s)}")
