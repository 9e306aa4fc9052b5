"""Reward files that hold no reward: each is told apart by its own reason, and evaluation and training go on."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.workflow.conftest import Clone

pytestmark = [pytest.mark.model, pytest.mark.timeout(240)]

FILE = '"${PLATOON_SANDBOX_ROOT:-}/logs/verifier/reward.json"'
# Task -> what its tests leave, and what the rollout is told to have: status, reward, and a word of the reason.
BAD: dict[str, tuple[str, str, str]] = {
    "empty": (f": > {FILE}", "", ""),
    "not-json": (f"echo 'reward: 1' > {FILE}", "", ""),
    "nan": (f"echo '{{\"reward\": NaN}}' > {FILE}", "", ""),
    "infinite": (f"echo '{{\"reward\": 1e309}}' > {FILE}", "", ""),
    "list": (f"echo '[1]' > {FILE}", "", ""),
    "huge": (f"truncate -s 2G {FILE}", "", ""),
    "link": (f"echo '{{\"reward\": 1}}' > there; ln -s \"$PWD/there\" {FILE}", "", ""),
    "none": ("true", "", ""),
}
GOOD = ("good-0", "good-1", "good-2", "good-3")


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


def command(name: str, config: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "platoon", name, str(config), *arguments, "--site", "profiles/local/site.yaml"]


def test_each_is_a_rollout_without_a_measurement(clone: Clone, recipe: Path) -> None:
    config = recipe / "eval.yaml"
    text = config.read_text().replace("platoon-bash", "platoon-noop").replace("split: eval", "split: train")
    config.write_text(text.replace("      holdout: {fraction: 0.3, group_by: [group], seed: 0}\n", ""))
    done = clone.run(*command("eval", config, "--output-dir", "evaluated", "--receipt", "evaluated.json"))
    print(done.stdout + done.stderr)
    for path in sorted((clone.root / "evaluated").rglob("*.json*")):
        print(path, path.read_text()[:300])
    assert 0
