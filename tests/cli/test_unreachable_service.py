"""A signal while a command waits for a training service that takes connections and never answers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from platoon import exits
from platoon.testing.toy_model import TOY_TOKENIZER_DIR

pytestmark = pytest.mark.process

CONNECTS_S = 60.0
# The SDK's own waits last minutes.
ENDS_S = 15.0
MODEL = {"model_name": str(TOY_TOKENIZER_DIR), "renderer_name": "chat_template"}
TRAIN = {**MODEL, "batch_size": 1, "max_training_steps": 1}
ENVIRONMENTS = [{"service": "harbor", "harness": "platoon-bash", "service_kwargs": {"dataset": "tasks", "provider": "process"}}]
COMMANDS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "sft": (("train",), {"trainer": "sft", "trainer_options": {"data": "chat.jsonl"}, "train": TRAIN}),
    "rl": (("train",), {"train": TRAIN, "environments": ENVIRONMENTS}),
    "eval": (("eval",), {"inference": MODEL, "environments": ENVIRONMENTS, "split": "all"}),
    "rollout": (("rollout", "--task", "t1"), {"inference": MODEL, "environments": ENVIRONMENTS, "split": "all"}),
}
FILES = {
    "site.yaml": "cache: cache\nruns: runs\n",
    "chat.jsonl": json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}),
    "tasks/t1/task.toml": "",
    "tasks/t1/instruction.md": "Do nothing.\n",
    "tasks/t1/environment/note.txt": "x\n",
    "tasks/t1/tests/test.sh": "#!/bin/sh\n",
}


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A service that listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(CONNECTS_S)
        yield listener


@pytest.mark.parametrize(
    ("kind", "number", "code"),
    [
        ("sft", signal.SIGTERM, exits.TERMINATED),
        ("rl", signal.SIGINT, exits.INTERRUPTED),
        ("eval", signal.SIGTERM, exits.TERMINATED),
        ("rollout", signal.SIGINT, exits.INTERRUPTED),
    ],
)
def test_a_signal_ends_the_wait_for_a_silent_service(
    kind: str, number: signal.Signals, code: int, silent: socket.socket, tmp_path: Path
) -> None:
    (command, *options), config = COMMANDS[kind]
    address = f"http://127.0.0.1:{silent.getsockname()[1]}"
    files = {**FILES, "config.yaml": json.dumps({**config, "tinker_base_url": address})}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PLATOON_NODE_SCRATCH": str(tmp_path / "scratch"),
        "TINKER_API_KEY": "tml-none",
    }
    arguments = [sys.executable, "-m", "platoon", command, "config.yaml", "--site", "site.yaml", *options]
    with subprocess.Popen(arguments, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(number)
                _, told = process.communicate(timeout=ENDS_S)
        finally:
            process.kill()
    assert process.returncode == code, told
    assert address in told
