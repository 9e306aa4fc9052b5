"""The gate: order, turns, barriers, deadlines, cancellation; a random schedule against the rules."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platoon.core.gate import EnvBusy, GateClosed, ToolGate, current_caller, on_behalf_of

pytestmark = pytest.mark.unit


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Calls:
    """Starts calls whose ends the test decides; `log` holds starts (`+name`) and ends (`-name`)."""

    def __init__(self, gate: ToolGate) -> None:
        self.gate, self.log = gate, []
        self.ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task] = {}

    async def start(self, name: str, caller: str = "a", kind: str = "serial") -> None:
        self.ends[name] = asyncio.Event()

        async def operation() -> str:
            self.log.append(f"+{name}")
            await self.ends[name].wait()
            self.log.append(f"-{name}")
            return name

        self.tasks[name] = asyncio.create_task(self.gate.run(operation, caller=caller, kind=kind))
        await settle()

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await settle()


def test_serial_calls_go_round_the_callers_and_in_order_within_one():
    async def main():
        calls = Calls(ToolGate())
        for name, caller in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b")):
            await calls.start(name, caller)
        order = []
        for _ in range(5):
            order.append(calls.log[-1][1:])
            await calls.end(order[-1])
        assert order == ["a1", "a2", "b1", "a3", "b2"]
        assert calls.gate.idle

    asyncio.run(main())


def test_concurrent_calls_overtake_serial_ones():
    async def main():
        calls = Calls(ToolGate())
        await calls.start("s1", "a")
        await calls.start("s2", "b")
        await calls.start("c1", "c", "concurrent")
        await calls.start("c2", "d", "concurrent")
        assert calls.log == ["+s1", "+c1", "+c2"]
        for name in ("s1", "c1", "c2", "s2"):
            await calls.end(name)

    asyncio.run(main())


def test_an_exclusive_call_is_a_barrier():
    async def main():
        calls = Calls(ToolGate())
        await calls.start("c1", "a", "concurrent")
        await calls.start("s1", "b")
        await calls.start("x", "c", "exclusive")
        await calls.start("c2", "d", "concurrent")
        await calls.start("s2", "e")
        assert calls.log == ["+c1", "+s1"]
        await calls.end("c1")
        assert "+x" not in calls.log
        await calls.end("s1")
        assert calls.log[-1] == "+x"
        await calls.end("x")
        assert calls.log[-2:] == ["+c2", "+s2"]
        await calls.end("c2")
        await calls.end("s2")
        assert calls.gate.idle

    asyncio.run(main())


def test_a_call_that_waits_too_long_never_runs():
    async def main():
        calls = Calls(ToolGate(0.05))
        await calls.start("s1", "a")
        await calls.start("s2", "b")
        with pytest.raises(EnvBusy):
            await calls.tasks["s2"]
        await calls.end("s1")
        assert calls.log == ["+s1", "-s1"] and calls.gate.idle

    asyncio.run(main())


def test_a_timed_out_exclusive_call_frees_what_waited_behind_it():
    async def main():
        gate = ToolGate(0.05)
        calls = Calls(gate)
        await calls.start("s1", "a")
        await calls.start("x", "b", "exclusive")
        with pytest.raises(EnvBusy):
            await calls.tasks["x"]
        await calls.start("c", "c", "concurrent")
        assert calls.log[-1] == "+c"
        await calls.end("c")
        await calls.end("s1")
        assert gate.idle

    asyncio.run(main())


def test_a_cancelled_waiter_leaves_and_a_cancelled_runner_runs_on():
    async def main():
        calls = Calls(ToolGate())
        for name in ("s1", "s2", "s3"):
            await calls.start(name, name)
        for name in ("s1", "s2"):
            calls.tasks[name].cancel()
            with pytest.raises(asyncio.CancelledError):
                await calls.tasks[name]
        assert calls.log == ["+s1"], "the cancelled runner still holds the gate"
        await calls.end("s1")
        assert calls.log == ["+s1", "-s1", "+s3"]
        await calls.end("s3")
        assert calls.gate.idle

    asyncio.run(main())


def test_a_grant_that_races_a_cancellation_is_passed_on():
    async def main():
        calls = Calls(ToolGate())
        await calls.start("s1", "a")
        await calls.start("s2", "b")
        calls.ends["s1"].set()
        for _ in range(100):
            await asyncio.sleep(0)
            if "-s1" in calls.log:
                break
        calls.tasks["s2"].cancel()
        await settle()
        await calls.start("s3", "c")
        if "+s2" in calls.log:
            await calls.end("s2")
        assert calls.log[-1] == "+s3"
        await calls.end("s3")
        assert calls.gate.idle

    asyncio.run(main())


def test_held_work_stops_when_it_is_cancelled():
    async def main():
        gate = ToolGate()

        async def grade() -> None:
            async with gate.hold(caller="grader"):
                await asyncio.sleep(300)

        task = asyncio.create_task(grade())
        await settle()
        assert not gate.idle
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert gate.idle

    asyncio.run(main())


def test_close_refuses_waiters_and_waits_for_what_runs():
    async def main():
        calls = Calls(ToolGate())
        await calls.start("s1", "a")
        await calls.start("s2", "b")
        assert not await calls.gate.close(0.05)
        with pytest.raises(GateClosed):
            await calls.tasks["s2"]
        with pytest.raises(GateClosed):
            async with calls.gate.hold(caller="c"):
                pass
        closing = asyncio.create_task(calls.gate.close(20))
        await calls.end("s1")
        assert await closing
        assert await calls.tasks["s1"] == "s1"

    asyncio.run(main())


def test_errors_reach_the_caller_and_free_the_gate():
    async def main():
        gate = ToolGate()

        async def fails() -> None:
            raise ValueError("no")

        with pytest.raises(ValueError):
            await gate.run(fails, caller="a")
        assert gate.idle

    asyncio.run(main())


def test_calling_back_into_the_gate_is_refused():
    async def main():
        gate = ToolGate()

        async def inner() -> None:
            pass

        async def outer() -> None:
            await gate.run(inner, caller="a")

        with pytest.raises(RuntimeError, match="called back"):
            await gate.run(outer, caller="a")
        assert gate.idle

    asyncio.run(main())


def test_on_behalf_of():
    assert current_caller() is None
    with on_behalf_of("agent"):
        assert current_caller() == "agent"
    assert current_caller() is None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.sampled_from("abc"), st.sampled_from(["serial", "concurrent", "exclusive"])),
        st.tuples(st.just("end"), st.integers(0, 5)),
        st.tuples(st.just("cancel"), st.integers(0, 5)),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_any_schedule_keeps_the_rules(steps):
    async def main():
        calls = Calls(ToolGate(None))
        kinds: dict[str, tuple[str, str]] = {}
        cancelled: set[str] = set()

        def check() -> None:
            running = [item[1:] for item in calls.log if item[0] == "+" and f"-{item[1:]}" not in calls.log]
            running_kinds = [kinds[name][1] for name in running]
            assert running_kinds.count("serial") <= 1
            assert "exclusive" not in running_kinds or len(running) == 1
            started = [item[1:] for item in calls.log if item[0] == "+"]
            for caller in "abc":
                own = [int(name) for name in started if kinds[name][0] == caller]
                assert own == sorted(own)
            for name in started:
                if kinds[name][1] == "exclusive":
                    later = [other for other in kinds if int(other) < int(name) and other not in cancelled]
                    assert all(started.index(other) < started.index(name) for other in later)
            waiting = [name for name in kinds if name not in started and name not in cancelled]
            assert running or not waiting, "something waits although nothing runs"

        for index, step in enumerate(steps):
            open_names = [name for name in kinds if f"-{name}" not in calls.log]
            if step[0] == "start":
                kinds[str(index)] = (step[1], step[2])
                await calls.start(str(index), step[1], step[2])
            elif step[0] == "end" and open_names:
                name = open_names[step[1] % len(open_names)]
                await calls.end(name)
            elif step[0] == "cancel" and open_names:
                name = open_names[step[1] % len(open_names)]
                if f"+{name}" not in calls.log:
                    cancelled.add(name)
                calls.tasks[name].cancel()
                await settle()
            check()
        for name in kinds:
            await calls.end(name)
        await settle()
        assert calls.gate.idle
        await asyncio.gather(*calls.tasks.values(), return_exceptions=True)

    asyncio.run(main())
