"""A terminal's Ctrl-C, once and again, while Snakemake waits for a trainer."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from platoon import exits
from tests.processes import until
from tests.workflow.conftest import Clone

pytestmark = pytest.mark.model

MODEL = {"model_name": "local/small", "renderer_name": "chat_template", "batch_size": 1, "max_training_steps": 100_000}
CONFIG = {"train": MODEL, "trainer": "sft", "trainer_options": {"data": "chat.jsonl"}, "tinker_base_url": "local"}
CHAT = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}


@pytest.mark.parametrize("times", [1, 3])
def test_interrupts_end_the_trainer_which_saves_and_nothing_else_is_told(times: int, clone: Clone) -> None:
    recipe = clone.root / "recipes/own"
    recipe.mkdir()
    for name, value in {"sft.yaml": CONFIG, "recipe.yaml": {"runs": {"own": {"config": "sft.yaml"}}}, "chat.jsonl": CHAT}.items():
        (recipe / name).write_text(json.dumps(value))
    command = (sys.executable, "-m", "snakemake", "--profile", "local", "--config", "recipe=recipes/own/recipe.yaml", "--", "train")
    process = clone.start(*command)
    try:
        metrics = clone.root / "runs/own/metrics.jsonl"
        until(lambda: metrics.exists() and b"\n" in metrics.read_bytes(), process)
        for _ in range(times):
            # To every process of the group, as a terminal does.
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.3)
        told, _ = process.communicate(timeout=100)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == exits.FAILED and "Traceback" not in told, told
    assert "SIGINT: stopping" in told and "stopped after INT; the same command goes on" in told
    saved = [json.loads(line)["name"] for line in Path(clone.root / "runs/own/checkpoints.jsonl").read_text().splitlines()]
    assert saved[-1].endswith("_interrupted")
