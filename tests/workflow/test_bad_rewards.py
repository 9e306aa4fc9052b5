"""Reward files that hold no reward: each is told apart by its own reason, and evaluation and training go on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.workflow.conftest import Clone

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

FILE = '"${PLATOON_SANDBOX_ROOT:-}/logs/verifier/reward.json"'
# Task -> what its tests leave, the outcome's status, and what is told of it. None is a reward of zero.
BAD: dict[str, tuple[str, str, str]] = {
    "empty": (f": > {FILE}", "error", "reward.json is empty"),
    "not-json": (f"echo 'reward: 1' > {FILE}", "error", "reward.json is no JSON"),
    "nan": (f"echo '{{\"reward\": NaN}}' > {FILE}", "error", "not finite: NaN"),
    "infinite": (f"echo '{{\"reward\": 1e309}}' > {FILE}", "error", "'reward' is not finite"),
    "list": (f"echo '[1]' > {FILE}", "error", "holds a JSON array"),
    "none": ("true", "error", "neither reward.json nor reward.txt"),
    "huge": (f"truncate -s 2G {FILE}", "invalid", "reward_file_too_large"),
    "link": (f'echo \'{{"reward": 1}}\' > there; ln -s "$PWD/there" {FILE}', "invalid", "reward_file_not_regular"),
}
GOOD = ("good-0", "good-1", "good-2")


@pytest.fixture
def recipe(clone: Clone) -> Path:
    """The tiny recipe with tasks whose tests write all this."""
    root = clone.root / "tests/recipes/tiny"
    tasks = root / "tasks"
    original = tasks / "put-0"
    for name in (*BAD, *GOOD):
        shutil.copytree(original, tasks / name)
        if name in BAD:
            (tasks / name / "tests/test.sh").write_text(f"#!/bin/bash\n{BAD[name][0]}\n")
    for number in range(6):
        shutil.rmtree(tasks / f"put-{number}")
    return root


def platoon(clone: Clone, name: str, config: Path, *arguments: str) -> str:
    done = clone.platoon(name, str(config), *arguments, "--site", "profiles/local/site.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def without_holdout(config: Path, *others: tuple[str, str]) -> Path:
    text = config.read_text()
    for old, new in (("      holdout: {fraction: 0.3, group_by: [group], seed: 0}\n", ""), *others):
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)
    return config


def test_an_evaluation_tells_each_by_its_reason(clone: Clone, recipe: Path) -> None:
    config = without_holdout(recipe / "eval.yaml", ("platoon-bash", "platoon-noop"), ("split: eval", "split: train"))
    platoon(clone, "eval", config, "--output-dir", "evaluated", "--receipt", "evaluated.json")
    found: dict[str, dict[str, Any]] = {}
    for path in (clone.root / "evaluated").rglob("metadata.json"):
        record = json.loads(path.read_text())
        found[record["task_id"]] = record
    assert set(found) == {*BAD, *GOOD}
    for task, (_, kind, told) in BAD.items():
        record = found[task]
        reason = f"{record['failure_kind']} {record['error']} {record['outcome_metadata']['reward_problem']}"
        assert told in reason, (task, reason)
        assert (record["status"], record["outcome_status"], record["reward"]) == ("errored", kind, None), (task, record)
    figures = json.loads((clone.root / "evaluated.json").read_text())["figures"]
    assert figures["rollouts"] == len(found)
    assert figures["valid"] == len(GOOD)


def test_training_goes_on(clone: Clone, recipe: Path) -> None:
    """Groups without a measurement are tried again, then passed over; no row comes from them."""
    for task in BAD:
        if task not in ("nan", "list"):
            shutil.rmtree(recipe / "tasks" / task)
    config = without_holdout(recipe / "rl.yaml", ("max_training_steps: 2", "max_training_steps: 3"))
    output = platoon(clone, "train", config, "--run", "run", "--receipt", "run.json")
    assert "gave no result" in output
    receipt = json.loads((clone.root / "run.json").read_text())
    assert receipt["steps"] == 3
    measured = [point["reward"] for point in receipt["curve"] if "reward" in point]
    assert measured and all(0 <= reward <= 1 for reward in measured)
