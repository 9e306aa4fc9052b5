"""`platoon eval` as a rule runs it: real tasks in process sandboxes, the embedded service, a stop in the middle."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from platoon import exits
from tests.envs.harbor.fakes.repositories import Repository

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

DEADLINE_S = 90.0
TASKS = 4
TEST = """#!/bin/sh
root=$PLATOON_SANDBOX_ROOT
mkdir -p "$root/logs/verifier"
if [ -s "$root/app/out.txt" ]; then state=1; else state=0; fi
printf '{"reward": %s, "state": %s}' $state $state > "$root/logs/verifier/reward.json"
"""
CONFIG: dict[str, Any] = {
    "inference": {
        "model_name": "local/tiny",
        "renderer_name": "chat_template",
        "workflow": {
            "num_rollouts_per_task": 3,
            "num_concurrent_workers": 2,
            "rollout_config": {"max_steps": 2, "timeout": 30, "inference_params": {"max_completion_tokens": 16}},
        },
    },
    "tinker_base_url": "local",
    "deterministic": True,
    "seed": 3,
    "split": "train",
    "environments": [{"service": "harbor", "service_kwargs": {"dataset": "tasks"}, "harness": "platoon-bash"}],
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for number in range(TASKS):
        task = tmp_path / "tasks" / f"t{number}"
        (task / "tests").mkdir(parents=True)
        (task / "environment").mkdir()
        (task / "environment" / "note.txt").write_text("a file of the task\n")
        (task / "task.toml").write_text('version = "1.0"\n[verifier]\ntimeout_sec = 30.0\n[agent]\ntimeout_sec = 30.0\n')
        (task / "instruction.md").write_text(f"Write {number} into /app/out.txt\n")
        (task / "tests" / "test.sh").write_text(TEST)
    (tmp_path / "eval.yaml").write_text(json.dumps(CONFIG))
    (tmp_path / "site.yaml").write_text("cache: cache\nruns: runs\nprovider: process\n")
    return tmp_path


def start(place: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "platoon", "eval", "eval.yaml", "--site", "site.yaml", "--receipt", "receipt.json"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PLATOON_NODE_SCRATCH": str(place / "scratch")}
    (place / "scratch").mkdir(exist_ok=True)
    return subprocess.Popen(command, cwd=place, env=environment, stderr=subprocess.PIPE, text=True)


def finished(place: Path) -> set[Path]:
    return set(place.glob("runs/base/eval-eval/*/rollouts/*/*/metadata.json"))


def test_term_stops_in_the_middle_and_the_same_command_goes_on(place: Path) -> None:
    first = start(place)
    deadline = time.monotonic() + DEADLINE_S
    while not finished(place) and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    first.send_signal(signal.SIGTERM)
    _, told = first.communicate(timeout=DEADLINE_S)
    assert first.returncode == exits.TERMINATED, told
    kept = {path: path.read_bytes() for path in finished(place)}
    assert 0 < len(kept) < TASKS * 3
    assert not (place / "receipt.json").exists()
    second = start(place)
    _, told = second.communicate(timeout=DEADLINE_S)
    assert second.returncode == exits.DONE, told
    assert {path: path.read_bytes() for path in kept} == kept
    receipt = json.loads((place / "receipt.json").read_text())
    assert (receipt["kind"], receipt["figures"]["valid"], receipt["figures"]["rollouts"]) == ("evaluation", 12, 12)
    assert receipt["figures"]["components"].keys() == {"reward", "state"}
    assert [message["role"] for message in receipt["example"]["messages"]][:2] == ["user", "assistant"]
    left = [path for path in (place / "scratch").rglob("*") if path.is_socket() or path.name == "fs"]
    assert left == []


def test_h021_h511_a_pinned_dataset_is_fetched_and_run_without_the_stack_that_is_excluded(place: Path) -> None:
    """Into an empty cache; with the stack the evaluation stops before any rollout, and names it and the way out."""
    repository = Repository.make(place / "repository")
    shutil.copytree(place / "tasks/t0", repository.path / "plain")
    shutil.copytree(place / "tasks/t1", repository.path / "stack")
    (repository.path / "stack/environment/docker-compose.yaml").write_text("services: {main: {}, db: {image: redis:7}}\n")
    shutil.rmtree(place / "tasks")
    kwargs = {"dataset": f"git+{repository.url}@{repository.commit()}"}
    entry = {"service": "harbor", "harness": "platoon-bash", "service_kwargs": kwargs}
    codes = {}
    for excluded in ([], ["stack"]):
        config = {**CONFIG, "environments": [{**entry, "exclude_tasks": excluded}]}
        (place / "eval.yaml").write_text(json.dumps(config))
        process = start(place)
        _, told = process.communicate(timeout=DEADLINE_S)
        codes[len(excluded)] = process.returncode
        if not excluded:
            assert "task stack: it is a stack of several containers" in told and "exclude_tasks leaves it out" in told, told
            assert not finished(place)
    assert codes == {0: exits.CONFIG, 1: exits.DONE}, told
    receipt = json.loads((place / "receipt.json").read_text())
    assert receipt["figures"]["rollouts"] == CONFIG["inference"]["workflow"]["num_rollouts_per_task"]
