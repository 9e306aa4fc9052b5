"""INT and TERM while no event loop handles them: each unwinds what runs, which leaves nothing half-made, and ends with its code."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Literal

from platoon import exits

# The shell and a scheduler may pass the same signal on within this time.
ECHO_S = 2.0
ENDING = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """An INT. A type of its own, since Python ends a process by the signal where KeyboardInterrupt itself leaves an `exec`, as
    dataclasses that are being imported have it, whoever catches it then.
    """


def takes_signals() -> bool:
    """Whether this thread may set handlers: Python gives signals to the main one alone."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def handlers_restored() -> Iterator[None]:
    """After the block INT and TERM are the caller's again, who goes on after a command that they ended."""
    before = {number: handler for number in ENDING if (handler := signal.getsignal(number)) is not None}
    try:
        yield
    finally:
        if takes_signals():
            for number, handler in before.items():
                signal.signal(number, handler)


class Interrupts:
    """INT and TERM while no event loop handles them, for the life of a context: each unwinds the block, TERM with its exit code.
    While they are `held` they are noted only.

    Code that ignores errors may swallow what is raised (the import of an extension module does): `SignalHandlers` that are
    installed later begin with what was received. A block that a signal ended leaves both ignored: only the end of the process is
    to come, and its exit code stands. Blocks may stand in one another: a signal ends the innermost, and so all. In a thread that is
    not the main one they leave signals to the main one.
    """

    def __init__(self, say: Callable[[str], None], end_now: Callable[[int], None] = os._exit) -> None:
        self._say, self._end_now = say, end_now
        self._before: dict[signal.Signals, Any] = {}
        self.first: signal.Signals | None = None
        self.held = False
        self._first_at = 0.0

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self) for number in ENDING if takes_signals()}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        ended = self.first is not None
        for number, before in self._before.items():
            # A block inside that was ended left them ignored.
            if signal.getsignal(number) is self:
                signal.signal(number, signal.SIG_IGN if ended else before or signal.SIG_DFL)
        if self.first and kind in (Interrupted, SystemExit):
            # Not by the handler, which may have come in the middle of a line that was being told.
            self._say(f"{self.first.name}: stopping")

    def __call__(self, number: int, frame: FrameType | None) -> None:
        turn = self.received(signal.Signals(number))
        if turn == "first" and not self.held:
            raise Interrupted if number == signal.SIGINT else SystemExit(exits.TERMINATED)
        if turn == "later":
            self._end_now(exits.FAILED)

    def received(self, number: signal.Signals) -> Literal["first", "echo", "later"]:
        """Notes a signal; which one it is."""
        now = time.monotonic()
        if self.first is None:
            self.first, self._first_at = number, now
            return "first"
        return "later" if now - self._first_at > ECHO_S else "echo"
