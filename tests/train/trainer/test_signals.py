"""Stop requests, echoes, second signals, the watchdog, and the time budget."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from platoon import exits
from platoon.host import interrupts
from platoon.host.interrupts import Interrupts
from platoon.train.trainer.budget import TimeBudget
from platoon.train.trainer.signals import EXIT_CODES, SignalHandlers, StopRequest, Watchdog, run_loop

pytestmark = pytest.mark.unit


def after(numbers: list[signal.Signals]) -> tuple[StopRequest, list[int]]:
    """What the handlers did with these signals, sent one after the other."""
    ended: list[int] = []

    async def receive() -> StopRequest:
        stop = StopRequest()
        with SignalHandlers(stop, lambda text: None, ended.append):
            for number in numbers:
                os.kill(os.getpid(), number)
                await asyncio.sleep(0.01)
        return stop

    return asyncio.run(receive()), ended


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, exits.INTERRUPTED), (signal.SIGTERM, exits.TERMINATED), (signal.SIGUSR1, exits.TERMINATED)],
)
def test_a_first_signal_asks_for_a_stop(number: signal.Signals, code: int) -> None:
    stop, ended = after([number])
    assert stop.asked and ended == []
    assert stop.reason is not None and EXIT_CODES[stop.reason] == code


def test_an_echo_of_a_scheduler_changes_nothing() -> None:
    stop, ended = after([signal.SIGTERM, signal.SIGTERM])
    assert stop.reason == "TERM" and ended == []


def test_a_later_signal_ends_at_once_and_an_early_warning_never_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "ECHO_S", -1.0)
    assert after([signal.SIGTERM, signal.SIGTERM])[1] == [exits.FAILED]
    assert after([signal.SIGUSR1, signal.SIGUSR1, signal.SIGTERM])[1] == []


def interrupted(numbers: list[signal.Signals], *, swallow: bool = False) -> tuple[int | None, list[str], list[int], bool]:
    """Exit code, what was told, at-once ends, and whether a loop that began afterwards was asked to stop."""
    told: list[str] = []
    ended: list[int] = []
    code: int | None = None
    asked = False

    async def loop() -> bool:
        stop = StopRequest()
        with SignalHandlers(stop, told.append, ended.append):
            return stop.asked

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        with Interrupts(told.append, ended.append):
            for number in numbers:
                try:
                    os.kill(os.getpid(), number)
                    time.sleep(0.01)
                except (KeyboardInterrupt, SystemExit):
                    if not swallow:
                        raise
            asked = asyncio.run(loop())
    except KeyboardInterrupt:
        code = exits.INTERRUPTED
    except SystemExit as end:
        assert isinstance(end.code, int)
        code = end.code
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)
    return code, told, ended, asked


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, exits.INTERRUPTED), (signal.SIGTERM, exits.TERMINATED)])
def test_without_a_loop_a_signal_unwinds_and_is_told(number: signal.Signals, code: int) -> None:
    assert interrupted([number]) == (code, [f"{number.name}: stopping"], [], False)


def test_a_signal_in_a_block_of_a_block_is_told_once_and_ends_both() -> None:
    told: list[str] = []
    before = [signal.getsignal(number) for number in interrupts.ENDING]
    try:
        with pytest.raises(SystemExit) as ended, Interrupts(told.append):
            with Interrupts(told.append):
                pass
            with Interrupts(told.append):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(1)
        # Until the process is gone its code stands.
        assert [signal.getsignal(number) for number in interrupts.ENDING] == [signal.SIG_IGN, signal.SIG_IGN]
    finally:
        for number, handler in zip(interrupts.ENDING, before, strict=True):
            signal.signal(number, handler)
    assert (ended.value.code, told) == (exits.TERMINATED, ["SIGTERM: stopping"])


def test_a_swallowed_signal_stops_the_loop_that_begins_later(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interrupted([signal.SIGINT, signal.SIGINT], swallow=True) == (None, ["SIGINT: stopping"], [], True)
    assert interrupted([], swallow=True) == (None, [], [], False)
    monkeypatch.setattr(interrupts, "ECHO_S", -1.0)
    assert interrupted([signal.SIGTERM, signal.SIGTERM], swallow=True)[2] == [exits.FAILED]


def test_nothing_is_raised_into_the_making_of_a_loop() -> None:
    """The handler itself, as a signal before the first line of the loop's work would call it."""

    async def work() -> bool:
        outside = signal.getsignal(signal.SIGTERM)
        assert callable(outside)
        outside(signal.SIGTERM, None)
        stop = StopRequest()
        with SignalHandlers(stop, lambda text: None):
            return stop.asked

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        with Interrupts(lambda text: None):
            assert run_loop(work())
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)


def test_handlers_are_put_back() -> None:
    async def loop() -> None:
        with SignalHandlers(StopRequest(), lambda text: None):
            pass

    with Interrupts(lambda text: None) as outside:
        asyncio.run(loop())
        assert signal.getsignal(signal.SIGTERM) is outside
    assert signal.getsignal(signal.SIGTERM) is not outside


def watched(work: Callable[[], None], say: Callable[[str], None] = lambda text: None) -> list[int]:
    ended: list[int] = []

    async def run() -> None:
        async with Watchdog(0.2, exits.WATCHDOG, say, ended.append):
            await asyncio.sleep(0.05)
            work()
            await asyncio.sleep(0.05)

    asyncio.run(run())
    return ended


def test_the_watchdog_ends_a_loop_that_does_not_beat() -> None:
    assert watched(lambda: time.sleep(0.6)) == [exits.WATCHDOG]
    assert watched(lambda: None) == []


def test_the_watchdog_says_how_long_there_was_no_beat() -> None:
    told: list[str] = []
    watched(lambda: time.sleep(0.6), told.append)
    assert told and all("no heartbeat for " in text and "for 0 s" not in text for text in told)


def test_a_budget_keeps_what_saving_and_a_step_take() -> None:
    now = [0.0]
    budget = TimeBudget(3600.0, lambda: now[0])
    assert budget.left_s() == 3480.0
    budget.step_took(200.0)
    budget.save_took(50.0)
    now[0] = 1000.0
    assert budget.left_s() == 2350.0
    now[0] = 3400.0
    assert budget.left_s() == 0.0
    assert TimeBudget(None, lambda: 0.0).left_s() is None


def test_a_short_budget_still_trains() -> None:
    assert TimeBudget(100.0, lambda: 0.0).left_s() == 75.0


def test_a_loop_in_a_thread_leaves_signals_to_the_main_one() -> None:
    before = [signal.getsignal(number) for number in interrupts.ENDING]
    found: list[object] = []

    async def loop() -> None:
        with SignalHandlers(StopRequest(), lambda text: None):
            found.extend(signal.getsignal(number) for number in interrupts.ENDING)

    thread = threading.Thread(target=lambda: asyncio.run(loop()))
    thread.start()
    thread.join()
    assert found == before == [signal.getsignal(number) for number in interrupts.ENDING]
