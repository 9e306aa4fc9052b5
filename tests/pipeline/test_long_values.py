"""Values that are far too long: told cut, whichever key has them, and refused without a long search."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest

from platoon.errors import ConfigError
from platoon.host.console import Console
from platoon.pipeline.check import check_file
from platoon.site import load_site

pytestmark = pytest.mark.unit

LONGEST_LINE = 700
MODEL = {"model_name": "local/small", "renderer_name": "chat_template"}
ENTRY = {"service": "harbor", "harness": "platoon-bash", "service_kwargs": {"dataset": "tasks", "provider": "process"}}
RL = {"train": {**MODEL, "batch_size": 1, "max_training_steps": 1}, "environments": [ENTRY], "tinker_base_url": "local"}
SFT = {"train": RL["train"], "trainer": "sft", "trainer_options": {"data": "chat.jsonl"}, "tinker_base_url": "local"}
EVALUATION = {"inference": MODEL, "environments": [ENTRY], "split": "all", "tinker_base_url": "local"}
RECIPE = {"runs": {"a": {"config": "rl.yaml"}}, "evaluations": {"e": {"of": "a", "config": "eval.yaml"}}}
ENTRY_KEYS = ("service", "harness", "program", "service_kwargs.provider", "service_kwargs.dataset", "service_kwargs.default_image")
KEYS: list[tuple[dict[str, Any], str]] = [
    *((RL, f"environments.0.{key}") for key in (*ENTRY_KEYS, "credit", "name")),
    *((RL, key) for key in ("trainer", "train.renderer_name", "train.model_name", "train.loss_fn", "tinker_base_url", "log_path")),
    *((RL, key) for key in ("agents.policy", "policies.p.model_name", "checkpoint.load_checkpoint_path", "stats.trial_name")),
    *((SFT, key) for key in ("trainer_options.data", "train.renderer_name", "train.model_name")),
    *((EVALUATION, f"environments.0.{key}") for key in ENTRY_KEYS),
    *((EVALUATION, key) for key in ("split", "inference.renderer_name", "inference.model_name", "inference.model_path")),
    *((RECIPE, key) for key in ("runs.a.config", "runs.a.from", "evaluations.e.of", "evaluations.e.config")),
]
VALUES = ("a b " * 1250, "module:" + "Name" * 1250, "tinker://" + "z" * 5000)


def with_value(config: dict[str, Any], key: str, value: str) -> dict[str, Any]:
    changed = copy.deepcopy(config)
    node: Any = changed
    *way, last = key.split(".")
    for part in way:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
    node[last] = value
    return changed


def told(place: Path, config: dict[str, Any]) -> str:
    path = place / ("recipe.yaml" if "runs" in config else "config.yaml")
    path.write_text(json.dumps(config))
    try:
        check_file(path, load_site(place / "site.yaml"), Console(io.StringIO()))
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("config", "key"), KEYS, ids=lambda item: item if isinstance(item, str) else "")
def test_no_line_repeats_a_whole_value(config: dict[str, Any], key: str, tmp_path: Path) -> None:
    files = {
        "site.yaml": "cache: cache\nruns: runs\n",
        "rl.yaml": json.dumps(RL),
        "eval.yaml": json.dumps(EVALUATION),
        "chat.jsonl": json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}),
        "tasks/t1/task.toml": "",
        "tasks/t1/instruction.md": "x\n",
        "tasks/t1/environment/note.txt": "x\n",
        "tasks/t1/tests/test.sh": "#!/bin/sh\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert told(tmp_path, config) == ""
    lines = [line for value in VALUES for line in told(tmp_path, with_value(config, key, value)).splitlines()]
    assert max(map(len, lines), default=0) < LONGEST_LINE + len(str(tmp_path)), max(lines, key=len)
