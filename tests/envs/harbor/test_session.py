"""Live Harbor sessions on the process provider: opening, tools, grading, forks, ends."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from platoon.core.outcome import Outcome
from platoon.core.protocols import Mount, SessionNeeds
from platoon.core.task import Task
from platoon.envs import get_service
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.service import HarborService
from platoon.envs.harbor.session import HarborSession
from platoon.errors import ConfigError, EnvSetupError
from platoon.sandbox.labels import LIVE
from platoon.sandbox.process import ProcessProvider, killing

pytestmark = pytest.mark.process

LOGS = '"${PLATOON_SANDBOX_ROOT:-}/logs/verifier"'
PASS = f"echo 1 > {LOGS}/reward.txt\n"


def write_task(root: Path, name: str, *, tests: str = PASS, toml: str = "", solution: str = "", environment: dict | None = None):
    directory = root / name
    for part in ("tests", "environment", *(["solution"] if solution else [])):
        (directory / part).mkdir(parents=True)
    (directory / "task.toml").write_text('schema_version = "1.4"\n' + toml)
    (directory / "instruction.md").write_text(f"Do {name}.\n")
    (directory / "tests" / "test.sh").write_text("#!/bin/bash\n" + tests)
    for path, content in (environment or {}).items():
        (directory / "environment" / path).write_text(content)
    if solution:
        (directory / "solution" / "solve.sh").write_text(solution)
    return directory


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return tmp_path / "dataset"


async def until(condition) -> None:
    """Waits up to 20 s for something another process does."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to pass")


def make_service(dataset: Path, **options: Any) -> HarborService:
    provider = ProcessProvider(root=dataset.parent / "sandboxes")
    return HarborService({"dataset_dir": str(dataset), **options}, provider=provider)


def sandboxes(dataset: Path) -> list[Path]:
    root = dataset.parent / "sandboxes"
    return list(root.iterdir()) if root.exists() else []


def play(service: HarborService, scenario, task_id: str = "task", needs: SessionNeeds | None = None) -> Any:
    async def main():
        session = await service.open(await service.get_task(task_id), rollout_id="rollout-1", needs=needs)
        try:
            return await asyncio.wait_for(scenario(session), 60)
        finally:
            await session.close()

    return asyncio.run(main())


def grade_after(dataset: Path, command: str = "true", **options: Any) -> Outcome:
    async def scenario(session: HarborSession) -> Outcome:
        await session.call_tool("bash", {"command": command})
        return await session.grade()

    return play(make_service(dataset, **options), scenario)


# Opening


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


def test_a_health_check_is_waited_for(dataset: Path):
    check = "test -e up || { touch up; exit 1; }"
    toml = f'[environment.healthcheck]\ncommand = "{check}"\nstart_period_sec = 30.0\nstart_interval_sec = 0.01\nretries = 1\n'
    write_task(dataset, "task", toml=toml)

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


# Grading


def test_u72_planted_reward_files_are_gone_before_the_tests(dataset: Path):
    write_task(dataset, "task", tests=f"echo 0.25 > {LOGS}/reward.txt\n")
    for planted in (
        "echo '{\"reward\": 1}' > /logs/verifier/reward.json",
        "echo 1 > /logs/verifier/reward.txt; chmod 444 /logs/verifier/reward.txt; chmod 555 /logs/verifier",
        "rm -rf /logs/verifier; ln -s /app /logs/verifier; echo 1 > /app/reward.json",
        "rm -rf /logs; ln -s /app /logs; mkdir -p /app/verifier; echo '{\"reward\": 1}' > /app/verifier/reward.json",
        "rm -rf /logs; echo 1 > /logs",
        "rm -rf /logs/verifier; mkfifo /logs/verifier",
        "mkdir -p /logs/verifier/reward.json/deep",
    ):
        outcome = grade_after(dataset, planted)
        assert (outcome.status, outcome.reward) == ("scored", 0.25), (planted, outcome)


def test_u72_what_agents_leave_running_cannot_write_rewards(dataset: Path):
    write_task(dataset, "task", tests="sleep 0.3\n")
    loop = "while :; do mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; sleep 0.01; done"
    outcome = grade_after(dataset, f"setsid bash -c '{loop}' >/dev/null 2>&1 &")
    assert (outcome.status, outcome.reason) == ("error", "reward_file_missing")


def test_u72_planted_tests_are_replaced(dataset: Path, tmp_path: Path):
    write_task(dataset, "task", tests=f"echo 0.25 > {LOGS}/reward.txt\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    for planted in (
        f"rm -rf /tests; ln -s {outside} /tests",
        "echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh; chmod 555 /tests /tests/test.sh",
        "touch /tests/conftest.py",
    ):
        assert grade_after(dataset, planted).reward == 0.25
    assert list(outside.iterdir()) == []


REWARD_FILES = {
    "link": (f"echo 1 > secret; ln -s $PWD/secret {LOGS}/reward.txt", "invalid", "reward_file_not_regular"),
    "dangling link": (f"ln -s nowhere {LOGS}/reward.json", "invalid", "reward_file_not_regular"),
    "directory": (f"mkdir {LOGS}/reward.json", "invalid", "reward_file_not_regular"),
    "FIFO": (f"mkfifo {LOGS}/reward.txt", "invalid", "reward_file_not_regular"),
    "link of the directory": (
        f"mv {LOGS} here; ln -s $PWD/here {LOGS}; echo 1 > here/reward.txt",
        "invalid",
        "reward_file_not_regular",
    ),
    "2 GB": (f"truncate -s 2G {LOGS}/reward.json", "invalid", "reward_file_too_large"),
    "one byte over": (f"head -c 1048577 /dev/zero > {LOGS}/reward.txt", "invalid", "reward_file_too_large"),
    "1 MiB": (f"head -c 1048576 /dev/zero > {LOGS}/reward.txt", "error", "reward_file_malformed"),
    "NaN": (f"echo '{{\"reward\": NaN}}' > {LOGS}/reward.json", "error", "reward_file_malformed"),
    "1e309": (f"echo '{{\"reward\": 1e309}}' > {LOGS}/reward.json", "error", "reward_file_malformed"),
    "list": (f"echo '[1]' > {LOGS}/reward.json", "error", "reward_file_malformed"),
    "not UTF-8": (f"printf '\\377\\376' > {LOGS}/reward.json", "error", "reward_file_malformed"),
    "empty": (f": > {LOGS}/reward.json", "error", "reward_file_empty"),
    "none": ("exit 1", "error", "reward_file_missing"),
    "directory removed": (f"rm -rf {LOGS}", "error", "reward_file_missing"),
    "a marker of its own": (f"printf 'platoon-x reward.txt regular\\n1\\n' > {LOGS}/reward.json", "error", "reward_file_malformed"),
}


@pytest.mark.parametrize("case", REWARD_FILES)
def test_u74_reward_files_on_disk(dataset: Path, case: str):
    tests, status, reason = REWARD_FILES[case]
    write_task(dataset, "task", tests=tests + "\n")
    outcome = grade_after(dataset)
    assert (outcome.status, outcome.reason) == (status, reason)


def test_partial_rewards_and_what_the_outcome_tells(dataset: Path):
    tests = f'echo checking; echo problem >&2; echo \'{{"reward": 0.5, "style": 1}}\' > {LOGS}/reward.json; exit 3\n'
    write_task(dataset, "task", tests=tests)
    outcome = grade_after(dataset)
    assert outcome.rewards == {"reward": 0.5, "style": 1.0} and outcome.status == "scored"
    metadata = outcome.metadata
    assert metadata["verifier_exit_code"] == 3 and metadata["verifier_mode"] == "shared"
    assert metadata["test_output"] == "checking\nproblem" and metadata["reward_files"] == ["reward.json"]


def test_tests_see_their_environment_and_the_agents_files(dataset: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ON_HOST", "host")
    tests = f'[ "$(cat answer)" = 42 ] && [ "$KEY" = host ] && echo 1 > {LOGS}/reward.txt || echo 0 > {LOGS}/reward.txt\n'
    write_task(dataset, "task", tests=tests, toml='[verifier.env]\nKEY = "${ON_HOST}"\n')
    assert grade_after(dataset, "echo 42 > answer").reward == 1
    assert grade_after(dataset, "echo 41 > answer").reward == 0
    monkeypatch.delenv("ON_HOST")
    outcome = grade_after(dataset)
    assert (outcome.status, outcome.reason) == ("error", "verifier_setup") and "ON_HOST" in outcome.metadata["detail"]


@pytest.mark.parametrize(
    ("command", "state"),
    [
        ("cd /; rm -rf /app", "missing"),
        ("cd /; rm -rf /app; echo x > /app", "not_a_directory"),
        ("cd /; rm -rf /app; ln -s /nowhere-at-all /app", "missing"),
    ],
)
def test_a_removed_working_directory_is_a_zero_of_our_own(dataset: Path, command: str, state: str):
    write_task(dataset, "task")
    outcome = grade_after(dataset, command)
    assert (outcome.status, outcome.reward, outcome.reason) == ("scored", 0.0, "workdir_missing")
    assert outcome.metadata["workdir_state"] == state and outcome.metadata["platoon_zero"] is True


def test_tests_that_take_too_long_are_killed_with_all_they_started(dataset: Path):
    tests = f"echo begun; echo 1 > {LOGS}/reward.txt; setsid sleep 300 & sleep 300\n"
    write_task(dataset, "task", tests=tests, toml="[verifier]\ntimeout_sec = 0.5\n")

    async def scenario(session: HarborSession):
        outcome = await session.grade()
        assert (outcome.status, outcome.reason) == ("invalid", "verifier_timeout")
        assert outcome.metadata["timeout_s"] == 0.5 and outcome.metadata["test_output"] == "begun"
        assert killing.marked(f"{killing.MARKER}={session.sandbox.paths.fs}") == []

    play(make_service(dataset), scenario)


def test_what_tests_left_running_cannot_change_the_reward(dataset: Path):
    background = f"(sleep 0.2; echo 1 > {LOGS}/reward.txt) >/dev/null 2>&1 &\n"
    write_task(dataset, "task", tests=f"echo 0 > {LOGS}/reward.txt\n{background}")
    assert grade_after(dataset).reward == 0


def test_tests_do_not_stay_and_grading_again_works(dataset: Path):
    write_task(dataset, "task")

    async def scenario(session: HarborSession):
        assert (await session.grade()).reward == 1
        assert not (session.sandbox.paths.fs / "tests").exists()
        assert (await session.grade()).reward == 1

    play(make_service(dataset), scenario)


def test_a_cancelled_grading_ends_the_tests(dataset: Path):
    write_task(dataset, "task", tests="touch started; sleep 300\n")

    async def scenario(session: HarborSession):
        task = asyncio.create_task(session.grade())
        started = session.sandbox.paths.fs / "app" / "started"
        await until(started.exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert killing.marked(f"{killing.MARKER}={session.sandbox.paths.fs}") == []
        assert session.lease.gate.idle

    play(make_service(dataset), scenario)


def test_processes_that_cannot_be_killed_are_a_fault(dataset: Path, monkeypatch: pytest.MonkeyPatch):
    write_task(dataset, "task")

    async def scenario(session: HarborSession):
        async def fails() -> None:
            raise RuntimeError("pid 7 outlived SIGKILL")

        monkeypatch.setattr(session.sandbox, "kill_processes", fails)
        outcome = await session.grade()
        assert (outcome.status, outcome.reason) == ("error", "verifier_isolation")

    play(make_service(dataset), scenario)


def test_collect_hooks_run_before_the_tests_and_may_fail(dataset: Path):
    hooks = '[[verifier.collect]]\ncommand = "echo ok > collected"\n[[verifier.collect]]\ncommand = "exit 5"\n'
    write_task(dataset, "task", tests=f"test -e collected && {PASS}", toml=hooks)
    outcome = grade_after(dataset)
    assert outcome.reward == 1 and outcome.metadata["collect_failed"] == ["exit 5: exit 5"]


def test_users_are_ignored_where_the_options_say_so(dataset: Path):
    write_task(dataset, "task", toml='[agent]\nuser = "nobody"\n[verifier]\nuser = 0\n')
    with pytest.raises(ConfigError, match="holds no task that can run"):
        make_service(dataset)
    outcome = grade_after(dataset, agent_user="ignore")
    assert outcome.reward == 1 and outcome.metadata["ignored_users"] == {"agent": "nobody", "verifier": 0}
    with pytest.raises(EnvSetupError, match="cannot be honored"):
        grade_after(dataset, agent_user="ignore", verifier_user="honor")


# The solution, forks, ends


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
        task = asyncio.create_task(session.close())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not sandboxes(dataset))

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


# The service


def test_get_service_and_lists(dataset: Path):
    write_task(dataset, "b")
    write_task(dataset / "group", "a", toml='[task]\nname = "org/a"\n')
    write_task(dataset, "refused", toml="[environment]\ngpus = 1\n")

    async def main():
        service = get_service("harbor", dataset_dir=str(dataset), provider="process", agent_user="ignore")
        assert await service.list_tasks("train") == ("b", "group/a", "refused")
        assert (await service.list_task_names("train"))["group/a"] == "org/a"
        with pytest.raises(ConfigError, match="GPUs"):
            await service.check_tasks("train", ["b", "refused"])
        await service.check_tasks("train", ["b"])
        task = await service.get_task("group/a")
        assert task.goal == "Do a.\n" and task.misc["harbor"]["digest"].startswith("sha256:")
        with pytest.raises(ConfigError):
            await service.get_task("none")

    asyncio.run(main())
    with pytest.raises(ConfigError, match="harbor"):
        get_service("habor")
    with pytest.raises(ConfigError):
        get_service("harbor", dataset_dir=str(dataset), provder="process")


def test_check_tasks_names_every_task_that_would_be_refused(dataset: Path):
    write_task(dataset, "a", toml='[verifier]\nenvironment_mode = "separate"\n')
    write_task(dataset, "b", toml='[[verifier.collect]]\ncommand = "x"\nservice = "db"\n')
    service = make_service(dataset)
    with pytest.raises(ConfigError) as caught:
        asyncio.run(service.check_tasks("train", ["a", "b"]))
    assert len(caught.value.problems) == 2


def test_a_fetched_dataset_is_served_from_its_lock_and_cache(dataset: Path, tmp_path: Path):
    from platoon.envs.harbor.fetch import fetch
    from platoon.envs.harbor.publish import HarborCache

    write_task(dataset, "task", environment={"data": "x"})
    options = {"dataset": "dataset", "provider": "process", "provider_options": {"root": str(tmp_path / "sandboxes")}}
    fetched = fetch(HarborOptions.parse(options), tmp_path, HarborCache(tmp_path / "cache" / "harbor"))
    files = {"lock_file": str(fetched.path), "cache_dir": str(tmp_path / "cache" / "harbor")}
    service = get_service("harbor", **options, **files)

    async def scenario(session: HarborSession):
        assert str(session.harbor_task.directory).startswith(str(tmp_path / "cache"))
        return await session.grade()

    assert play(service, scenario).reward == 1
    (tmp_path / "cache" / "harbor" / fetched.lock.tasks[0].path / "tests" / "test.sh").write_text("changed")
    with pytest.raises(Exception, match="not what its digest says"):
        play(get_service("harbor", **options, **files), scenario)


def test_nothing_of_the_hosts_environment_is_left_in_the_process(dataset: Path):
    assert "PLATOON_SANDBOX_ROOT" not in os.environ


def test_a_rollout_cancelled_at_any_moment_leaves_nothing(dataset: Path):
    write_task(dataset, "task", tests=f"setsid sleep 300 & sleep 0.02; {PASS}", environment={"file": "x"})
    service = make_service(dataset)

    async def rollout() -> None:
        session = await service.open(Task("task"), rollout_id="r")
        try:
            await session.call_tool("bash", {"command": "setsid sleep 300 >/dev/null 2>&1 & sleep 0.02"})
            copy = await session.fork("copy")
            try:
                await session.grade()
            finally:
                await copy.close()
        finally:
            await session.close()

    async def main() -> None:
        began = asyncio.get_running_loop().time()
        await rollout()
        whole_s = asyncio.get_running_loop().time() - began
        descriptors, registered = open_descriptors(), LIVE.live()
        for part in range(16):
            task = asyncio.create_task(rollout())
            await asyncio.sleep(whole_s * part / 16)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await until(lambda: not sandboxes(dataset))
        await until(lambda: LIVE.live() == registered)
        # What was cancelled last may still close its pipes.
        await until(lambda: open_descriptors() <= descriptors)

    asyncio.run(main())
    assert [row for row in killing.process_table().values() if _belongs(row.pid, dataset.parent)] == []


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _belongs(pid: int, place: Path) -> bool:
    try:
        return f"PLATOON_SANDBOX_ROOT={place}/".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def test_a_gateways_socket_is_reached_from_the_session(dataset: Path, tmp_path: Path):
    write_task(dataset, "task")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_unix_server(answer, tmp_path / "gateway.sock")
        needs = SessionNeeds({"gateway": f"unix://{tmp_path}/gateway.sock"})
        session = await make_service(dataset).open(Task("task"), rollout_id="r", needs=needs)
        try:
            port = session.sandbox.routes["gateway"].rpartition(":")[2]
            ask = f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
            assert (await session.call_tool("bash", {"command": ask})).as_text().endswith("hello")
            assert (await session.grade()).reward == 1
            assert (await session.call_tool("bash", {"command": ask})).as_text().endswith("hello")
        finally:
            await session.close()
            server.close()

    asyncio.run(main())


def test_the_runs_image_map_is_read(dataset: Path, tmp_path: Path):
    write_task(dataset, "task")
    images = tmp_path / "image_map.json"
    images.write_text('{"providers": {"process": {"images": {"none": {"image": "local", "env": {"FROM_MAP": "yes"}}}}}}')
    service = get_service(
        "harbor",
        options=HarborOptions.parse({"dataset_dir": str(dataset), "provider": "process"}),
        image_map_file=images,
        base_dir=tmp_path,
    )

    async def scenario(session: HarborSession):
        assert (await session.call_tool("bash", {"command": "echo $FROM_MAP"})).as_text() == "yes"

    play(service, scenario)
    images.write_text("[]")
    with pytest.raises(ConfigError, match="no image map"):
        get_service("harbor", dataset_dir=str(dataset), provider="process", image_map_file=images)
