"""A job that reaches its limits, through Snakemake: its budget is used up, TERM comes, the profile's retry goes on."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.workflow.conftest import RECIPE, Clone

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

STEPS = 15
# In place of `platoon`. The first attempt at main gets a budget of a second, whose clock stands still until two steps are told, so
# that a slow machine gets as far; once the budget is used up TERM comes, as from a scheduler.
LIMITED = r"""
import signal, subprocess, sys, time
from pathlib import Path

codes, told, arguments = Path("codes.txt"), Path("runs/main/logs/train.log"), sys.argv[1:]
command = [sys.executable, "-m", "platoon", *arguments]
limited = arguments[:1] == ["train"] and "main" in arguments and not codes.exists()
if limited:
    arguments[arguments.index("--time-budget") + 1] = "1s"
    command = [sys.executable, "first_attempt.py", *arguments]
process = subprocess.Popen(command)
while limited and process.poll() is None:
    if told.exists() and "the time budget is used up" in told.read_text():
        process.send_signal(signal.SIGTERM)
        break
    time.sleep(0.01)
code = process.wait()
if arguments[:1] == ["train"] and "main" in arguments:
    with codes.open("a") as file:
        file.write(f"{code}\n")
sys.exit(code)
"""
FIRST_ATTEMPT = r"""
from pathlib import Path

from platoon.cli.main import main
from platoon.train.trainer import run
from platoon.train.trainer.budget import TimeBudget

metrics = Path("runs/main/metrics.jsonl")

def clock():
    return 1e9 if metrics.exists() and metrics.read_bytes().count(b"\n") >= 2 else 0.0

run.TimeBudget = lambda budget_s, *_: TimeBudget(budget_s, clock)
main()
"""
WORKFLOW = """
module ours:
    snakefile: "{root}/workflow/Snakefile"
    config: {{"recipe": "recipe/recipe.yaml"}}

use rule * from ours exclude train_run

use rule train_run from ours as train_run with:
    params:
        platoon="{python} limited.py",
"""


@pytest.fixture
def workflow(trained: Clone, tmp_path: Path) -> Path:
    """A workflow of one's own around ours, with a recipe, a site and a profile of its own; the cache is shared."""
    recipe = tmp_path / "recipe"
    shutil.copytree((trained.root / RECIPE).parent, recipe)
    (recipe / "recipe.yaml").write_text("runs: {main: {config: rl.yaml}}\n")
    config = (recipe / "rl.yaml").read_text()
    assert "max_training_steps: 2\n" in config
    (recipe / "rl.yaml").write_text(config.replace("max_training_steps: 2\n", f"max_training_steps: {STEPS}\n"))
    (tmp_path / "limited.py").write_text(LIMITED)
    (tmp_path / "first_attempt.py").write_text(FIRST_ATTEMPT)
    (tmp_path / "Snakefile").write_text(WORKFLOW.format(root=trained.root, python=sys.executable))
    (tmp_path / "site.yaml").write_text(f"cache: {trained.root}/.cache/platoon\nruns: runs\n")
    profile = (trained.root / "profiles/local/profile.yaml").read_text()
    (tmp_path / "profile").mkdir()
    own = profile.replace("profiles/local/site.yaml", "site.yaml") + "retries: 1\n"
    assert own.count("site.yaml") == 1
    (tmp_path / "profile/profile.yaml").write_text(own)
    return tmp_path


def test_term_at_a_budget_that_is_used_up_saves_and_the_profiles_retry_goes_on(trained: Clone, workflow: Path) -> None:
    command = [sys.executable, "-m", "snakemake", "--directory", str(workflow), "--snakefile", str(workflow / "Snakefile")]
    done = trained.run(*command, "--profile", str(workflow / "profile"), "--", "results/main/train.json", timeout_s=240)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    run = workflow / "runs/main"
    told = (run / "logs/train.log").read_text()
    assert (workflow / "codes.txt").read_text().split() == ["75", "0"], output + told
    saved = [json.loads(line) for line in (run / "checkpoints.jsonl").read_text().splitlines()]
    [interrupted] = [row for row in saved if row["name"].endswith("_interrupted")]
    assert interrupted["start"] == 1 and 2 <= interrupted["batch"] < STEPS
    assert f"start 2: going on after step {interrupted['batch']}" in told and saved[-1]["start"] == 2
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    assert [row["start"] for row in rows] == [1 if row["step"] <= interrupted["batch"] else 2 for row in rows]
    assert json.loads((workflow / "results/main/train.json").read_text())["steps"] == STEPS
    assert not (run / "process.json").exists() and not (run / "sandboxes.json").exists()
