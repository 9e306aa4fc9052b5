from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platoon.errors import PlatoonError
from platoon.train.checkpoints.dispatch_state import DispatchState
from platoon.train.dispatch.draw import Fate
from platoon.train.dispatch.lifecycle import TRANSITIONS, State
from platoon.train.dispatch.settled import SettledGroup
from platoon.train.dispatch.source import RolloutSource, TrainInterrupted
from platoon.train.task_records.fates import Verdict
from tests.train.dispatch.simulated_run import SimulatedRun, output, until_quiet

pytestmark = pytest.mark.unit

DEADLINE_S = 20.0


def run(coroutine: object) -> None:
    asyncio.run(asyncio.wait_for(coroutine, DEADLINE_S))  # type: ignore[arg-type]


async def take_settling(simulated: SimulatedRun, choose: random.Random) -> SettledGroup:
    """Takes one group, settling running ones at random until there is one."""
    taking = asyncio.create_task(simulated.source.take())
    while not taking.done():
        await until_quiet()
        if simulated.running and not taking.done():
            position = choose.choice(sorted(simulated.running))
            if not simulated.running[position].done():
                simulated.running[position].set_result(output())
        # The group is stored by a thread, so turns of the loop alone do not bring it.
        await asyncio.sleep(0.0005)
    return taking.result()


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    batch=st.integers(1, 3),
    bound=st.sampled_from([0, 1, 2, None]),
    permits=st.integers(2, 7),
    deterministic=st.booleans(),
    ends=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from(["kill", "stop", "after"])), max_size=3),
)
def test_every_position_gets_exactly_one_fate_over_any_number_of_starts(
    seed: int, batch: int, bound: int | None, permits: int, deterministic: bool, ends: list[tuple[int, int, str]]
) -> None:
    """Random settle, take, commit, stop and kill sequences.

    A kill goes back to the capture of the last commit. A stop in the middle of a step captures then, what the step took as kept.
    `after` ends a start between two steps.
    """
    steps = 4
    bound = 0 if deterministic else bound
    choose = random.Random(seed)
    fates: list[tuple[int, Fate]] = []
    step_of_start: dict[int, int] = {}

    async def one_start(number: int, directory: Path, state: dict | None, done: int, end: tuple[int, int, str] | None) -> tuple:
        simulated = SimulatedRun(
            directory, start=number, batch=batch, steps=steps - done, bound=bound, permits=permits, deterministic=deterministic
        )
        source = simulated.source
        if state is not None:
            source.restore(state)
        state = source.capture()
        simulated.on_start = lambda draw: step_of_start.__setitem__(draw.position, done)
        await source.start()
        try:
            for step in range(done, steps):
                simulated.on_start = lambda draw, step=step: step_of_start.__setitem__(draw.position, step)
                source.step_started()
                groups = []
                for index in range(batch):
                    if end is not None and end[2] != "after" and (step, index) == (end[0], min(end[1], batch - 1)):
                        if end[2] == "kill":
                            return state, step
                        simulated.stop.set()
                        with pytest.raises(TrainInterrupted):
                            await source.take()
                        return source.capture(), step
                    groups.append(await take_settling(simulated, choose))
                    age = step - step_of_start[groups[-1].draw.position]
                    # Under a larger bound a group that others overtook may be older; the stale filter judges it.
                    assert bound != 0 or age == 0
                    limit = ((bound if bound is not None else steps) + 1) * batch
                    assert source.ledger.pipeline + source.dispatcher.admitted <= limit
                if deterministic:
                    assert [group.draw.position for group in groups] == list(range(step * batch, (step + 1) * batch))
                assert source.ledger.count(State.TAKEN) == batch
                decided = {group.draw.key: choose.choice([Fate.CONSUMED, Fate.STALE]) for group in groups}
                source.committed(decided)
                fates.extend((group.draw.position, decided[group.draw.key]) for group in groups)
                state = source.capture()
                if end is not None and end[2] == "after" and step == end[0]:
                    return state, step + 1
            with pytest.raises(ValueError, match="no further group"):
                source.step_started()
                await source.take()
            return None, steps
        finally:
            await source.close()
            assert source._permits.free == permits

    async def whole_run() -> None:
        with TemporaryDirectory() as name:
            state, done = None, 0
            for number, end in enumerate([*sorted(ends), None], start=1):
                if end is not None and end[0] < done:
                    continue
                state, done = await one_start(number, Path(name), state, done, end)
                if done == steps and state is None:
                    break

    run(whole_run())
    counts = Counter(position for position, _ in fates)
    assert sorted(counts) == list(range(batch * steps)) if bound == 0 else len(counts) == batch * steps
    assert set(counts.values()) == {1}


def test_groups_come_in_settle_order_and_in_deterministic_mode_by_position(tmp_path: Path) -> None:
    async def order_of(deterministic: bool) -> list[int]:
        simulated = SimulatedRun(tmp_path, batch=3, steps=1, bound=0, deterministic=deterministic)
        await simulated.source.start()
        await until_quiet()
        for position in (2, 0, 1):
            await simulated.settle(position, output())
        taken = [(await simulated.source.take()).draw.position for _ in range(3)]
        await simulated.source.close()
        return taken

    async def both() -> None:
        assert await order_of(False) == [2, 0, 1]
        assert await order_of(True) == [0, 1, 2]

    run(both())


def test_a_capture_survives_its_json_and_a_kept_group_keeps_its_place(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = SimulatedRun(tmp_path, batch=2, steps=2, bound=1)
        await simulated.source.start()
        await until_quiet()
        await simulated.settle(1, output(reward=0.25))
        state = simulated.source.capture()
        await simulated.source.close()
        assert DispatchState.from_dict(state).to_dict() == state
        again = SimulatedRun(tmp_path, start=2, batch=2, steps=2, bound=1)
        again.source.restore(state)
        assert again.source.capture()["kept"] == state["kept"]
        await again.source.start()
        await until_quiet()
        group = await again.source.take()
        assert (group.draw.position, group.draw.start, group.output.members[0].reward) == (1, 1, 0.25)
        # What ran is drawn again as a new draw of this start, at its old position and ahead of the order.
        assert [(draw.start, draw.position) for draw in again.draws[:2]] == [(2, 0), (2, 2)]
        await again.source.close()

    run(scenario())


def test_a_consumed_group_is_deleted_unless_a_capture_names_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = SimulatedRun(tmp_path, batch=1, steps=3, bound=1)
        await simulated.source.start()
        await until_quiet()
        await simulated.settle(0, output())
        named = simulated.source.capture()["kept"]["groups"][0][-1]
        for position in (1, 2):
            group = await simulated.source.take()
            simulated.source.committed({group.draw.key: Fate.CONSUMED})
            simulated.source.step_started()
            await until_quiet()
            await simulated.settle(position, output())
        last = await simulated.source.take()
        assert last.draw.position == 2
        await simulated.source.close()
        kept.update((named, last.digest))

    kept: set[str] = set()
    run(scenario())
    assert {f"sha256:{path.stem}" for path in tmp_path.iterdir()} == kept


def test_a_stop_ends_waiting_and_starting_but_not_a_step_that_must_finish(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = SimulatedRun(tmp_path, batch=2, steps=2, bound=0, permits=2)
        await simulated.source.start()
        await until_quiet()
        simulated.stop.set()
        with pytest.raises(TrainInterrupted):
            await simulated.source.take()
        assert list(simulated.running) == [0]
        finishing = asyncio.create_task(simulated.source.take(interruptible=False))
        await until_quiet()
        simulated.running[0].set_result(output())
        assert (await finishing).draw.position == 0
        finishing = asyncio.create_task(simulated.source.take(interruptible=False))
        while 1 not in simulated.running:  # noqa: ASYNC110  because a simulated group tells nobody that it runs
            await asyncio.sleep(0)
        simulated.running[1].set_result(output())
        assert (await finishing).draw.position == 1
        await simulated.source.close()

    run(scenario())


def test_what_settles_while_the_run_stops_is_played_again(tmp_path: Path) -> None:
    """At its time limit Slurm signals the commands in the sandboxes too: their results are not those of the policy."""

    async def scenario() -> None:
        simulated = SimulatedRun(tmp_path, batch=2, steps=2, bound=0)
        await simulated.source.start()
        await until_quiet()
        await simulated.settle(0, output())
        simulated.stop.set()
        simulated.running[1].set_result(output(reward=0.0))
        await until_quiet()
        state = DispatchState.from_dict(simulated.source.capture())
        await simulated.source.close()
        assert [kept.draw.position for kept in state.kept] == [0]
        assert [draw.position for draw in state.outstanding] == [1]

    run(scenario())


def test_u86_a_group_that_never_answers_is_named_and_a_dead_service_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("platoon.train.dispatch.run_source.WAIT_REPORT_S", 0.01)

    async def scenario() -> None:
        told: list[str] = []
        simulated = SimulatedRun(tmp_path, batch=2, steps=2, bound=0, failures_in_a_row=2)
        simulated.source._report = told.append
        await simulated.source.start()
        taking = asyncio.create_task(simulated.source.take())
        while not told:  # noqa: ASYNC110  because the report is a list
            await asyncio.sleep(0.005)
        assert "task-" in told[0]
        assert "position 0" in told[0]
        attempts = 0
        while not taking.done():
            for settles in simulated.running.values():
                if not settles.done():
                    settles.set_exception(ConnectionError("the sandbox host is gone"))
                    attempts += 1
            await asyncio.sleep(0.001)
        first = await taking if taking.exception() is None else None
        with pytest.raises(PlatoonError, match=r"2 groups in a row gave nothing to train on.*the sandbox host is gone"):
            if first is None:
                await taking
            while True:
                await simulated.source.take()
                await asyncio.sleep(0.001)
        await simulated.source.close()

    run(scenario())
    assert "attempt 3 of 3" in caplog.text


def test_a_failed_group_takes_its_place_and_is_counted(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = SimulatedRun(tmp_path, batch=1, steps=2, bound=0)
        await simulated.source.start()
        await until_quiet()
        simulated.running[0].set_result(output(Verdict.NO_COMPLETED_ROOT, status="invalid"))
        group = await simulated.source.take()
        assert group.output.verdict is Verdict.NO_COMPLETED_ROOT
        simulated.source.committed({group.draw.key: Fate.FAILED})
        assert simulated.ended == [(0, Fate.FAILED)]
        record = simulated.source.records.get(f"default::{group.draw.task_id}")
        assert (record.groups, record.attempts, record.fates["failed"]) == (1, 0, 1)
        with pytest.raises(ValueError, match="no outstanding draw"):
            simulated.source.committed({group.draw.key: Fate.FAILED})
        await simulated.source.close()

    run(scenario())


def test_a_disk_that_takes_no_group_ends_the_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        blocked = tmp_path / "file"
        blocked.write_text("")
        simulated = SimulatedRun(blocked / "groups", batch=1, steps=1, bound=0)
        await simulated.source.start()
        await until_quiet()
        simulated.running[0].set_result(output())
        with pytest.raises(PlatoonError, match="stored"):
            await simulated.source.take()
        await simulated.source.close()

    run(scenario())


def test_u83_slow_tasks_are_not_starved_and_stale_draws_are_counted_by_task(tmp_path: Path) -> None:
    """Durations 1:20 under bound 2: the horizon holds fast ones back, so every position is taken within its bound."""

    async def scenario() -> None:
        simulated = SimulatedRun(tmp_path, batch=2, steps=6, bound=2, permits=12, tasks=4)
        source = simulated.source
        await source.start()
        slow: dict[int, int] = {}
        taken: list[int] = []
        for tick in range(400):
            await asyncio.sleep(0.001)
            for position, settles in list(simulated.running.items()):
                slow.setdefault(position, tick + (20 if position % 4 == 0 else 1))
                if tick >= slow[position] and not settles.done():
                    settles.set_result(output())
            while (entry := source._next()) is not None and len(taken) < 12:
                group = await source.take()
                assert group.draw.key == entry.draw.key
                taken.append(group.draw.position)
                source.committed({group.draw.key: Fate.STALE if group.draw.position == 4 else Fate.CONSUMED})
                if len(taken) % 2 == 0:
                    source.step_started()
            if len(taken) == 12:
                break
        assert sorted(taken) == list(range(12))
        assert sum(source.records.stale_by_task().values()) == 1
        await source.close()

    run(scenario())


def test_the_transition_table_reaches_every_state_and_ends_are_ends() -> None:
    reached, frontier = {State.DRAWN}, [State.DRAWN]
    while frontier:
        for state in TRANSITIONS[frontier.pop()]:
            if state not in reached:
                reached.add(state)
                frontier.append(state)
    assert reached == set(State)
    assert {state for state in State if not TRANSITIONS[state]} == {
        State.CONSUMED,
        State.STALE,
        State.FAILED,
        State.REJECTED,
        State.SKIPPED,
        State.LOST,
    }


def test_the_source_has_the_shape_of_the_protocol(tmp_path: Path) -> None:
    async def scenario() -> None:
        source: RolloutSource = SimulatedRun(tmp_path).source
        assert source.blocked_shares() == {}
        await source.close()
        await source.close()

    run(scenario())
