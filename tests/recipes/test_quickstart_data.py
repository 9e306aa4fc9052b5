"""The quickstart's data: made again to the same bytes, apart from the demonstrations, graded by what commands left."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from ruamel.yaml import YAML

from platoon.envs.harbor.service import HarborService
from platoon.sandbox.process import ProcessProvider

HELD_OUT_TASKS = 12


@pytest.fixture(scope="module")
def folder(checkout: Path) -> Path:
    return checkout / "recipes/quickstart"


@pytest.fixture(scope="module")
def make_data(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("quickstart_make_data", folder / "make_data.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def files(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.unit
def test_the_script_makes_what_is_committed(folder: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, folder / "make_data.py", tmp_path], check=True, timeout=60)
    assert files(tmp_path / "tasks") == files(folder / "tasks")
    assert (tmp_path / "chat.jsonl").read_bytes() == (folder / "chat.jsonl").read_bytes()


@pytest.mark.unit
def test_no_demonstration_holds_a_number_of_a_task(folder: Path, make_data: ModuleType) -> None:
    tasks, numbers = make_data.all_tasks()
    assert len(tasks) == 40
    assert len(numbers) == 60, "a target for each task, and what the file held before for two of the four families"
    chat = (folder / "chat.jsonl").read_text()
    assert [number for number in numbers if number in chat] == []


@pytest.mark.unit
def test_demonstrations_are_imperfect_in_both_ways(folder: Path) -> None:
    conversations = [json.loads(line)["messages"] for line in (folder / "chat.jsonl").read_text().splitlines()]
    broken = sum(messages[-1]["content"] != "done" for messages in conversations) / len(conversations)
    assert 0.2 < broken < 0.3
    puts = [messages for messages in conversations if messages[0]["content"].startswith("put ")]
    right = sum(messages[0]["content"].split()[1] in json.dumps(messages[1]) for messages in puts) / len(puts)
    assert 0.5 < right < 0.7


def play(folder: Path, root: Path, commands: Mapping[str, Sequence[str] | None]) -> dict[str, dict[str, float]]:
    """The reported numbers of each task, after its commands, or after its own solution for None."""
    service = HarborService({"dataset_dir": str(folder / "tasks")}, provider=ProcessProvider(root=root))

    async def one(task_id: str, lines: Sequence[str] | None) -> dict[str, float]:
        session = await service.open(await service.get_task(task_id), rollout_id=f"test-{task_id}")
        try:
            if lines is None:
                await session.run_solution()
            for line in lines or ():
                await session.call_tool("bash", {"command": line})
            outcome = await session.grade()
            assert outcome.trainable, outcome
            return dict(outcome.rewards)
        finally:
            await session.close()

    async def everything() -> dict[str, dict[str, float]]:
        return {task_id: await one(task_id, lines) for task_id, lines in commands.items()}

    return asyncio.run(everything())


@pytest.mark.process
def test_solutions_score_one_and_doing_nothing_scores_zero(folder: Path, tmp_path: Path) -> None:
    names = sorted(path.name for path in (folder / "tasks").iterdir())
    solved = play(folder, tmp_path, dict.fromkeys(names))
    assert {name: numbers for name, numbers in solved.items() if set(numbers.values()) != {1.0}} == {}
    idle = play(folder, tmp_path, dict.fromkeys(names, ()))
    assert {name: numbers for name, numbers in idle.items() if set(numbers.values()) != {0.0}} == {}


@pytest.mark.process
@pytest.mark.parametrize(
    ("family", "command", "parsed", "state"),
    [
        ("put", "printf '%s\\n' {want} > {file}", 1, 1),
        ("put", "printf '%s' {want} > {file}", 1, 1),
        ("put", "printf '%s\\n' x{tail} > {file}", 1, 0.666),
        ("put", "printf '%s\\n' {want}{want} > {file}", 1, 0),
        ("put", "echo {want} > elsewhere", 1, 0),
        ("put", "echo {want}", 0, 0),
        ("put", "rm {file}", 1, 0),
        ("put", "rm {file}; mkfifo {file}", 1, 0),
        ("put", "rm {file}; mkdir {file}", 1, 0),
        ("put", "echo {want} > elsewhere; ln -sf elsewhere {file}", 1, 0),
        ("put", "yes {want} | head -c 3000000 > {file}", 1, 0),
        ("put", "head -c 3 /dev/zero > {file}", 1, 0),
        ("put", "echo '*' > {file}", 1, 0),
        ("add", "echo {want} >> {file}", 1, 1),
        ("add", "echo {want} > {file}", 1, 0),
        ("copy", "mv {start} {file}", 1, 1),
        ("copy", "touch {file}", 1, 0),
        ("job", "cat {start}", 0, 0),
        ("job", "cp {start} {file}", 1, 0),
    ],
)
def test_a_verifier_reads_what_commands_left(
    folder: Path, tmp_path: Path, make_data: ModuleType, family: str, command: str, parsed: float, state: float
) -> None:
    task = make_data.all_tasks()[0][f"{family}-0"]
    line = command.format(want=task.want, tail=task.want[1:], file=task.file, start=task.start)
    numbers = play(folder, tmp_path, {f"{family}-0": (line,)})[f"{family}-0"]
    assert numbers["parsed"] == parsed
    assert numbers["state"] == pytest.approx(state)
    assert numbers["reward"] == pytest.approx(0.2 * parsed + 0.8 * state, abs=2e-3)


@pytest.mark.unit
def test_training_and_evaluation_split_the_tasks_alike(folder: Path, checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("cache: cache\nruns: runs\n")
    command = [sys.executable, "-m", "platoon", "harbor", "fetch", folder / "eval.yaml", "--json", "--site", tmp_path / "site.yaml"]
    fetched = json.loads(subprocess.run(command, cwd=checkout, capture_output=True, check=True, timeout=60).stdout)
    assert fetched["holdout"]["eval"] == HELD_OUT_TASKS
    read = YAML(typ="safe", pure=True)
    rl, evaluation = (read.load(folder / name) for name in ("rl.yaml", "eval.yaml"))
    assert rl["environments"] == evaluation["environments"]
    assert HELD_OUT_TASKS * evaluation["inference"]["workflow"]["num_rollouts_per_task"] >= 128
