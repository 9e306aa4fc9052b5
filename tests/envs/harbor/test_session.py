"""Live Harbor sessions on the process provider: how they open."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from platoon.core.protocols import Mount, SessionNeeds
from platoon.core.task import Task
from platoon.envs.harbor.service import HarborService
from platoon.envs.harbor.session import HarborSession
from platoon.errors import EnvSetupError
from platoon.sandbox.process import ProcessProvider
from tests.envs.harbor.sessions import (
    make_service,
    play,
    sandboxes,
    write_task,
)

pytestmark = pytest.mark.process


def test_a_session_has_instruction_uploads_environment_and_labels(dataset: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TOKEN_ON_HOST", "abc")
    toml = (
        '[environment]\nworkdir = "/work"\n[environment.env]\nA = "${TOKEN_ON_HOST}"\nB = "${NOT_SET_ANYWHERE:-b}"\nC = "x${NO}"\n'
    )
    write_task(dataset, "task", toml=toml, environment={"data.csv": "1,2\n"})

    async def scenario(session: HarborSession):
        assert session.instruction == "Do task.\n"
        result = await session.call_tool("bash", {"command": "pwd; cat data.csv; echo $A $B $C $S"})
        assert result.as_text() == "/work\n1,2\nabc b x${NO} s"
        assert session.spec.labels["platoon.rollout_id"] == "rollout-1" and session.spec.labels["platoon.task"] == "task"
        assert [tool.name for tool in await session.tools()] == ["bash", "view", "write", "edit"]
        assert session.host_loopback and not session.network_isolated

    play(make_service(dataset, env={"S": "s"}), scenario)
    assert sandboxes(dataset) == []


def test_needs_reach_the_sandbox(dataset: Path, tmp_path: Path):
    write_task(dataset, "task")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "file").write_text("tool")
    needs = SessionNeeds({"gateway": "http://127.0.0.1:9"}, (Mount(str(tools), "/opt/tools"),))

    async def scenario(session: HarborSession):
        assert session.sandbox.routes == {"gateway": "http://127.0.0.1:9"}
        assert (await session.sandbox.exec("cat /opt/tools/file")).stdout == "tool"

    play(make_service(dataset), scenario, needs=needs)


@pytest.mark.parametrize(
    ("toml", "kind", "text"),
    [
        ('[environment.env]\nA = "${NOT_SET_ANYWHERE}"\n', "env_config", "NOT_SET_ANYWHERE"),
        ('[verifier]\nenvironment_mode = "separate"\n', "env_config", "not served"),
        ('[[verifier.collect]]\ncommand = "true"\nservice = "db"\n', "env_config", "service db"),
        ('[environment.healthcheck]\ncommand = "exit 7"\nretries = 0\n', "env_healthcheck", "failed 1 time, last: exit 7"),
        ('[environment.healthcheck]\ncommand = "exit 7"\nretries = 2\ninterval_sec = 0.01\n', "env_healthcheck", "exit 7"),
    ],
)
def test_sessions_that_cannot_open_say_why_and_leave_nothing(dataset: Path, toml: str, kind: str, text: str):
    write_task(dataset, "task", toml=toml)

    async def scenario(session: HarborSession):
        raise AssertionError("opened")

    with pytest.raises(EnvSetupError, match=text) as caught:
        play(make_service(dataset), scenario)
    assert caught.value.failure_kind == kind
    assert sandboxes(dataset) == []


@pytest.mark.parametrize("retries", [0, 1])
def test_a_health_check_is_waited_for(dataset: Path, retries: int):
    check = "test -e up || { touch up; exit 1; }"
    toml = f'[environment.healthcheck]\ncommand = "{check}"\nstart_period_sec = 30.0\nstart_interval_sec = 0.01\n'
    write_task(dataset, "task", toml=f"{toml}retries = {retries}\n")

    async def scenario(session: HarborSession):
        assert (await session.sandbox.exec("ls")).stdout == "up\n"

    play(make_service(dataset), scenario)


def test_u75_a_cancelled_open_leaves_nothing(dataset: Path):
    toml = '[environment.healthcheck]\ncommand = "sleep 300"\ntimeout_sec = 300.0\n'
    write_task(dataset, "task", toml=toml)
    service = make_service(dataset)

    async def main():
        for delay in (0, 0.001, 0.01, 0.1, 0.3):
            task = asyncio.create_task(service.open(Task("task"), rollout_id="r"))
            await asyncio.sleep(delay)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert sandboxes(dataset) == []

    asyncio.run(main())


def test_u77_a_start_that_hangs_has_its_own_bound(dataset: Path):
    write_task(dataset, "task", toml="[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 60.0\n")

    class Hanging(ProcessProvider):
        async def start(self, spec):
            await asyncio.sleep(300)

    service = HarborService({"dataset_dir": str(dataset), "sandbox_start_budget_s": 0.1}, provider=Hanging())
    with pytest.raises(EnvSetupError, match="did not start within") as caught:
        play(service, None)
    assert caught.value.failure_kind == "sandbox_start"


def test_u77_a_rollouts_deadline_counts_start_tests_and_margin(dataset: Path):
    toml = "[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 60.0\n"
    health = (
        '[environment.healthcheck]\ncommand = "true"\nstart_period_sec = 10.0\nretries = 2\ntimeout_sec = 5.0\ninterval_sec = 1.0\n'
    )
    write_task(dataset, "task", toml=toml)
    write_task(dataset, "health", toml=toml + health)
    options = {"agent_timeout_multiplier": 2, "verifier_timeout_multiplier": 3, "sandbox_start_budget_s": 100, "close_timeout_s": 7}
    service = make_service(dataset, **options)
    assert service.agent_timeout_s("task") == 120
    assert service.rollout_overhead_s("task") == 100 + 180 + 120 + 7
    assert service.rollout_overhead_s("health") == 100 + (10 + 3 * 6) + 180 + 120 + 7
