"""Live Harbor sessions on the process provider: grading and what agents try against it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from platoon.envs.harbor.session import HarborSession
from platoon.errors import ConfigError, EnvSetupError
from platoon.sandbox.process import killing
from tests.envs.harbor.sessions import (
    LOGS,
    PASS,
    grade_after,
    make_service,
    play,
    until,
    write_task,
)

pytestmark = pytest.mark.process


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
    "hard link": (f"echo 1 > secret; ln secret {LOGS}/reward.txt", "invalid", "reward_file_not_regular"),
    "two names of one file": (
        f"echo 1 > {LOGS}/reward.txt; ln {LOGS}/reward.txt {LOGS}/reward.json",
        "invalid",
        "reward_file_not_regular",
    ),
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
