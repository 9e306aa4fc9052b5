"""Live Harbor sessions on the process provider: solutions, forks, ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from platoon.core.task import Task
from platoon.envs.harbor.session import HarborSession
from platoon.errors import EnvSetupError
from platoon.sandbox.labels import LIVE
from tests.envs.harbor.sessions import (
    PASS,
    make_service,
    play,
    sandboxes,
    until,
    write_task,
)

pytestmark = pytest.mark.process


def test_the_solution_earns_the_reward(dataset: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOLUTION_KEY", "42")
    write_task(
        dataset,
        "task",
        tests=f'[ "$(cat answer)" = 42 ] && {PASS}',
        solution="echo $ANSWER > answer; exit 9\n",
        toml='[solution.env]\nANSWER = "${SOLUTION_KEY}"\n',
    )

    async def scenario(session: HarborSession):
        assert (await session.run_solution()).exit_code == 9
        assert (await session.grade()).reward == 1

    play(make_service(dataset), scenario)


def test_forks(dataset: Path):
    write_task(dataset, "task", tests=f'[ "$(cat file)" = one ] && {PASS}')

    async def scenario(session: HarborSession):
        await session.call_tool("write", {"path": "file", "content": "one"})
        shared = await session.fork("shared", task=Task("child", "child goal"))
        copy = await session.fork("copy")
        fresh = await session.fork("fresh")
        try:
            assert shared.instruction == "child goal" and shared.sandbox is session.sandbox
            await copy.call_tool("write", {"path": "file", "content": "two"})
            assert (await shared.call_tool("bash", {"command": "cat file"})).as_text() == "one"
            assert (await copy.call_tool("bash", {"command": "cat file"})).as_text() == "two"
            assert (await fresh.call_tool("bash", {"command": "cat file"})).as_text().endswith("[exit code 1]")
            assert (await copy.grade()).status == "error"
            assert (await session.grade()).reward == 1
            await shared.close()
            assert (await session.call_tool("bash", {"command": "echo alive"})).as_text() == "alive"
            assert (await shared.call_tool("bash", {"command": "echo"})).is_error
        finally:
            for view in (shared, copy, fresh):
                await view.close()

    play(make_service(dataset), scenario)
    assert sandboxes(dataset) == []


def test_a_closed_session_grades_and_forks_nothing(dataset: Path):
    write_task(dataset, "task")

    async def scenario(session: HarborSession):
        await asyncio.gather(session.close(), session.close())
        assert (await session.grade()).reason == "session_closed"
        with pytest.raises(EnvSetupError):
            await session.fork()
        assert sandboxes(dataset) == []

    play(make_service(dataset), scenario)


def test_a_cancelled_close_still_ends_the_sandbox(dataset: Path):
    write_task(dataset, "task")

    async def scenario(session: HarborSession):
        assert len(LIVE.live()) == len(before) + 1
        task = asyncio.create_task(session.close())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The directory goes first: a loop that ended in between would leave the register as it was.
        await until(lambda: not sandboxes(dataset) and LIVE.live() == before)

    before = LIVE.live()
    play(make_service(dataset), scenario)


def test_grading_waits_for_its_turn_and_says_when_it_never_came(dataset: Path):
    write_task(dataset, "task")

    async def scenario(session: HarborSession):
        call = asyncio.create_task(session.call_tool("bash", {"command": "sleep 1"}))
        await asyncio.sleep(0.1)
        outcome = await session.grade()
        assert (outcome.status, outcome.reason) == ("error", "env_busy")
        await call

    play(make_service(dataset, queue_timeout_s=0.1), scenario)
