"""`platoon train` as a process on a real embedded service: kills, signals, deaths, budgets; what is left, and how it goes on."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import children, gone, until, wait_for

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

STEPS = 8
COMMON = {
    "model_name": "local/small",
    "renderer_name": "chat_template",
    "batch_size": 2,
    "max_training_steps": STEPS,
    "optimizer": {"learning_rate": 1e-3},
}
CONFIGS: dict[str, Any] = {
    "sft": {
        "train": COMMON,
        "trainer": "sft",
        "trainer_options": {"data": "chat.jsonl"},
        "tinker_base_url": "local",
        "checkpoint": {"recovery_every": 2},
    },
    # Two trained policies, each on a service of its own, and a frozen one.
    "rl-two": {
        "train": {
            **COMMON,
            "max_staleness": 0,
            "workflow_config": {"group_size": 3, "rollout_config": {"inference_params": {"max_completion_tokens": 12}}},
        },
        "environments": [{"service": "guessing:service", "harness": "guessing:ask_others"}],
        "policies": {"helper": {"tinker_base_url": "local"}, "judge": {"trainable": False}},
        "agents": {"roles": {"helper": {"policy": "helper"}, "judge": {"policy": "judge"}}},
        "tinker_base_url": "local",
        "deterministic": True,
        "checkpoint": {"recovery_every": 1},
    },
}


class Runs:
    """Commands on one recipe of conversations; each run has a runs directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.config = directory, "sft"
        lines = [
            {"messages": [{"role": "user", "content": f"{n} + 1"}, {"role": "assistant", "content": str(n + 1)}]} for n in range(12)
        ]
        (directory / "chat.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        for name, config in CONFIGS.items():
            (directory / f"{name}.yaml").write_text(json.dumps(config))
        (directory / "site.yaml").write_text(json.dumps({"cache": "cache", "runs": "runs"}))
        self.started: list[subprocess.Popen[str]] = []

    def start(self, name: str, *more: str, file_size_bytes: int | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "platoon", "train", str(self.directory / f"{self.config}.yaml"), "--run", name]
        command += ["--site", str(self.directory / "site.yaml"), "--receipt", str(self.receipt(name)), *more]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())
        if file_size_bytes is not None:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (file_size_bytes, file_size_bytes))
        self.started.append(process)
        return process

    def run(self, name: str, *more: str, file_size_bytes: int | None = None) -> tuple[int, str]:
        process = self.start(name, *more, file_size_bytes=file_size_bytes)
        output, _ = process.communicate(timeout=100)
        return process.returncode, output

    def run_dir(self, name: str) -> Path:
        return self.directory / "runs" / name

    def receipt(self, name: str) -> Path:
        return self.directory / f"{name}.json"

    def result(self, name: str) -> tuple[Any, Any, list[bytes]]:
        """Rows of every step, their chain, and the bytes of each trained policy's weights."""
        receipt = json.loads(self.receipt(name).read_text())
        saved = [receipt["checkpoint"], *receipt["policies"].values()]
        return (
            [(point["step"], point["rows_digest"], point.get("loss"), point.get("reward")) for point in receipt["curve"]],
            receipt["checkpoint"]["weights"],
            [self.weights(policy["state_path"]) for policy in saved],
        )

    def weights(self, path: str) -> bytes:
        """Tensors and optimizer state without the header, which names the session."""
        file = self.directory / "runs" / ".tinker" / "checkpoints" / f"{path.removeprefix('tinker://')}.safetensors"
        data = file.read_bytes()
        return data[8 + int.from_bytes(data[:8], "little") :]

    def rows(self, name: str, file: str = "metrics.jsonl") -> list[dict[str, Any]]:
        path = self.run_dir(name) / file
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def helper_ahead(self, name: str) -> bool:
        """Whether the helper is saved further than the commit of both."""
        return len(self.rows(name, "policies/helper/checkpoints.jsonl")) > len(self.rows(name, "checkpoints.jsonl"))

    def between_saves(self, name: str, process: subprocess.Popen[str]) -> bool:
        """Whether the helper is ahead; the process is held still then."""
        if not self.helper_ahead(name):
            return False
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        if self.helper_ahead(name):
            return True
        process.send_signal(signal.SIGCONT)
        return False


def environment() -> dict[str, str]:
    paths = [str(Path(__file__).parents[2]), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), "OMP_NUM_THREADS": "1"}


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    made = Runs(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("config", CONFIGS)
def test_u81_killed_at_any_moment_it_resumes_to_the_same_rows_and_weights(config: str, runs: Runs) -> None:
    """Of two policies the moment is between their saves."""
    runs.config = config
    code, told = runs.run("whole")
    assert code == 0 and ("longest wait for a sample: 600 s (default)" in told) == (config == "rl-two"), told
    expected = runs.result("whole")
    policies = len(expected[2])
    process = runs.start("killed")
    until(lambda: len(runs.rows("killed")) >= 3 and (policies == 1 or runs.between_saves("killed", process)), process)
    held = children(process.pid)
    assert len(held) == policies, "a service for each"
    process.kill()
    process.wait()
    wait_for(lambda: gone(held))
    assert policies == 1 or runs.helper_ahead("killed")
    assert runs.run("killed")[0] == 0
    assert runs.result("killed")[:2] == expected[:2]
    assert [row["step"] for row in runs.rows("killed")] == list(range(1, STEPS + 1))
    assert runs.result("killed")[2] == expected[2]


def test_term_saves_exits_143_and_the_next_attempt_goes_on(runs: Runs) -> None:
    process = runs.start("run", "train.max_training_steps=5000")
    until(lambda: len(runs.rows("run")) >= 1, process)
    second, output = runs.run("run", "train.max_training_steps=5000")
    assert second == 75 and f"process {process.pid}" in output
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    saved = (runs.run_dir("run") / "checkpoints.jsonl").read_text().splitlines()
    last = json.loads(saved[-1])
    assert last["name"].endswith("_interrupted") and len(runs.rows("run")) == last["batch"]
    assert not runs.receipt("run").exists() and not (runs.run_dir("run") / "process.json").exists()
    steps = last["batch"] + 2
    assert runs.run("run", f"train.max_training_steps={steps}")[0] == 0
    assert [row["step"] for row in runs.rows("run")] == list(range(1, steps + 1))


def test_a_service_that_dies_ends_the_run_within_a_bound_and_it_resumes(runs: Runs) -> None:
    process = runs.start("run", "train.max_training_steps=5000")
    until(lambda: len(runs.rows("run")) >= 3, process)
    began = time.monotonic()
    for child in children(process.pid):
        os.kill(child, signal.SIGKILL)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 1 and "the training service run ended" in output
    assert time.monotonic() - began < 30
    steps = len(runs.rows("run")) + 1
    assert runs.run("run", f"train.max_training_steps={steps}")[0] == 0


def test_a_time_budget_saves_and_exits_75(runs: Runs) -> None:
    code, _ = runs.run("run", "--time-budget", "1s")
    assert code == 75
    assert not runs.receipt("run").exists()


def test_a_disk_that_is_full_ends_the_run_and_keeps_the_last_whole_checkpoint(runs: Runs) -> None:
    """A limit on the size of files stands for it: the first checkpoint of the second start cannot be written."""
    assert runs.run("run", "train.max_training_steps=2")[0] == 0
    saved = (runs.run_dir("run") / "checkpoints.jsonl").read_text()
    code, output = runs.run("run", "train.max_training_steps=3", file_size_bytes=20_000)
    assert code == 1
    state_dir = runs.directory / "runs" / ".tinker" / "checkpoints"
    kept = "the last whole checkpoint is kept, and the same command goes on from it"
    assert f"cannot be written in {state_dir}: File too large; {kept}\n" in output
    assert (runs.run_dir("run") / "checkpoints.jsonl").read_text() == saved
    named = {f"tinker://{path.relative_to(state_dir).with_suffix('')}" for path in state_dir.rglob("*") if path.is_file()}
    assert named == {row[key] for row in map(json.loads, saved.splitlines()) for key in ("state_path", "sampler_path")}
    assert runs.run("run", "train.max_training_steps=3")[0] == 0
    assert [row["step"] for row in runs.rows("run")] == [1, 2, 3]
