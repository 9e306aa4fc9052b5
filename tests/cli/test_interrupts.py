"""INT and TERM while a command reads its files, and while its embedded service starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from platoon import exits
from tests.cli.test_unreachable_service import ENVIRONMENTS, FILES

pytestmark = pytest.mark.model

ENDS_S = 60.0
MODEL = {"model_name": "local/small", "renderer_name": "chat_template"}
TRAIN = {**MODEL, "batch_size": 1, "max_training_steps": 1}
COMMANDS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "sft": (("train",), {"trainer": "sft", "trainer_options": {"data": "chat.jsonl"}, "train": TRAIN}),
    "rl": (("train",), {"train": TRAIN, "environments": ENVIRONMENTS}),
    "eval": (("eval",), {"inference": MODEL, "environments": ENVIRONMENTS, "split": "all"}),
    "rollout": (("rollout", "--task", "t1"), {"inference": MODEL, "environments": ENVIRONMENTS, "split": "all"}),
}
CODES = {signal.SIGINT: exits.INTERRUPTED, signal.SIGTERM: exits.TERMINATED}


def start(kind: str, place: Path) -> subprocess.Popen[str]:
    (command, *options), config = COMMANDS[kind]
    for name, text in {**FILES, "config.yaml": json.dumps({**config, "tinker_base_url": "local"})}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PLATOON_NODE_SCRATCH": str(place / "scratch")}
    arguments = [sys.executable, "-m", "platoon", command, "config.yaml", "--site", "site.yaml", *options]
    return subprocess.Popen(arguments, cwd=place, env=environment, stderr=subprocess.PIPE, text=True)


def ends(process: subprocess.Popen[str], number: signal.Signals, after: str) -> str:
    """Signals once a line that holds `after` was told, twice, and waits for the end. What was told from then on."""
    assert process.stderr is not None
    try:
        while after not in (line := process.stderr.readline()):
            assert line, "it ended before"
        process.send_signal(number)
        process.send_signal(number)
        return process.communicate(timeout=ENDS_S)[1]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("kind", "number", "last"),
    [
        ("sft", signal.SIGINT, "starting: "),
        ("rl", signal.SIGTERM, "starting: "),
        ("eval", signal.SIGINT, ": starting"),
        ("eval", signal.SIGTERM, ": starting"),
        ("rollout", signal.SIGINT, "playing: "),
        ("rollout", signal.SIGTERM, "playing: "),
    ],
)
def test_a_signal_ends_the_start_of_the_service(kind: str, number: signal.Signals, last: str, tmp_path: Path) -> None:
    process = start(kind, tmp_path)
    told = ends(process, number, last)
    assert process.returncode == CODES[number], told
    assert f"{number.name}: stopping" in told and "Traceback" not in told
    # The service came up under no phase: nothing of the work began.
    assert "opening sessions" not in told and not list((tmp_path / "scratch").rglob("fs"))
    # What a start has of its own while it lives.
    assert [path.name for path in tmp_path.rglob("*") if path.name in ("process.json", "sandboxes.json")] == []


@pytest.mark.parametrize("number", CODES)
def test_a_signal_ends_the_reading(number: signal.Signals, tmp_path: Path) -> None:
    process = start("sft", tmp_path)
    told = ends(process, number, "reading")
    assert process.returncode == CODES[number], told
    assert f"{number.name}: stopping" in told
