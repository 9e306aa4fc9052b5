"""`kill -9` of the trainer at twenty moments of a run: the same command goes on, and trains the same rows as a run left alone."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.processes import children, gone, wait_for
from tests.workflow.conftest import Clone

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]

SEED = 20
KILLS = 20
STEPS = 40
# From an empty process to the first step, roughly: kills land in starts as well as in steps.
START_S = 4.0


@dataclass(frozen=True)
class Kill:
    """steps: None to kill `delay_s` after the start; else so long after the start has made that many steps.

    whole_group: the trainer with all it started, at once; else the trainer alone, and its service must end by itself.
    service_first: the service dies a moment before.
    """

    steps: int | None
    delay_s: float
    whole_group: bool
    service_first: bool


def kills(seed: int) -> list[Kill]:
    source = random.Random(seed)
    found = []
    for number in range(KILLS):
        in_start = number % 4 == 0
        steps, limit_s = (None, START_S) if in_start else (source.choice((1, 1, 2)), 0.4)
        found.append(Kill(steps, source.uniform(0, limit_s), source.random() < 0.5, source.random() < 0.2))
    return found


@dataclass(frozen=True)
class Run:
    """A run by hand of the tiny recipe's inputs, longer than the recipe's."""

    clone: Clone
    name: str

    def start(self) -> subprocess.Popen[str]:
        arguments = [self.config, "--inputs", str(self.inputs), "--from", "results/warm/train.json", "--run", self.name]
        arguments += ["--receipt", str(self.receipt), "--site", "profiles/local/site.yaml"]
        return self.clone.start(sys.executable, "-m", "platoon", "train", *arguments)

    @property
    def config(self) -> str:
        return "tests/recipes/tiny/rl.yaml"

    @property
    def inputs(self) -> Path:
        return self.clone.root / "long/inputs"

    @property
    def directory(self) -> Path:
        return self.clone.root / "runs" / self.name

    @property
    def receipt(self) -> Path:
        return self.clone.root / f"long/{self.name}.json"

    def rows(self) -> list[dict[str, Any]]:
        path = self.directory / "metrics.jsonl"
        # The last line of a file that is being written may be half there.
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def finish(self) -> None:
        process = self.start()
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output


def prepare_longer(clone: Clone) -> None:
    """The warm start of the recipe, and the inputs of its run with a longer plan."""
    made = clone.snakemake(targets=("results/warm/train.json", "results/main/inputs/image_map.json"))
    assert made.returncode == 0, made.stdout + made.stderr
    target = clone.root / "long/inputs"
    target.mkdir(parents=True)
    for name in ("datasets.lock.json", "plan.json", "image_map.json"):
        (target / name).write_bytes((clone.root / "results/main/inputs" / name).read_bytes())
    longer = ["--out", str(target / "config.yaml"), f"train.max_training_steps={STEPS}"]
    resolved = clone.platoon("resolve", "tests/recipes/tiny/rl.yaml", *longer)
    assert resolved.returncode == 0, resolved.stderr


def strike(run: Run, process: subprocess.Popen[str], kill: Kill) -> bool:
    """False when the run ended before its kill."""
    began, before = time.monotonic(), len(run.rows())

    def due() -> bool:
        if process.poll() is not None:
            return True
        return time.monotonic() - began >= kill.delay_s if kill.steps is None else len(run.rows()) >= before + kill.steps

    wait_for(due)
    if kill.steps is not None:
        time.sleep(kill.delay_s)
    started = children(process.pid)
    if kill.service_first:
        for pid in started:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    alive = process.poll() is None
    if alive:
        if kill.whole_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.communicate(timeout=60)
    wait_for(lambda: gone(started))
    return alive


def test_u81_killed_at_twenty_moments_it_trains_the_same_rows_and_weights(clone: Clone) -> None:
    prepare_longer(clone)
    whole, killed = Run(clone, "whole"), Run(clone, "killed")
    whole.finish()
    print(f"kills of seed {SEED}")
    struck, most = 0, 0
    for kill in kills(SEED):
        process = killed.start()
        alive = strike(killed, process, kill)
        struck += alive
        steps = [row["step"] for row in killed.rows()]
        print(f"{kill}: {'killed' if alive else 'had ended'} after step {steps[-1] if steps else 0}")
        assert steps == list(range(1, len(steps) + 1)), "each step is told once at any moment"
        most = max(most, len(steps))
    assert most < STEPS, "the run was too short for its kills"
    assert struck >= KILLS - 4
    killed.finish()
    expected, found = (json.loads(run.receipt.read_text()) for run in (whole, killed))
    assert [row["step"] for row in killed.rows()] == list(range(1, STEPS + 1))
    assert [told(point) for point in found["curve"]] == [told(point) for point in expected["curve"]]
    assert [point["step"] for point in found["curve"]] == list(range(1, STEPS + 1))
    assert found["checkpoint"]["weights"] == expected["checkpoint"]["weights"]
    assert weights(clone, found) == weights(clone, expected)
    assert not (killed.directory / "process.json").exists()


def weights(clone: Clone, receipt: dict[str, Any]) -> bytes:
    """Tensors and optimizer state without the header, which names the session."""
    name = receipt["checkpoint"]["state_path"].removeprefix("tinker://")
    data = (clone.root / f"runs/.tinker/checkpoints/{name}.safetensors").read_bytes()
    return data[8 + int.from_bytes(data[:8], "little") :]


def told(point: dict[str, Any]) -> tuple[Any, ...]:
    """What of a step does not depend on how long it took."""
    return point["step"], point["rows_digest"], point["reward"], point["tokens"]
