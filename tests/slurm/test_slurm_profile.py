"""A recipe on Slurm: the command as typed, jobs that end by signals, and the attempts that go on after them."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.workflow.conftest import RECIPE, Clone, clone_of

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(1800)]

STEPS = 40
RL = "tests/recipes/tiny/rl.yaml"
# In place of `platoon`: the clock of the time budget stands still until two steps are told.
BUDGET_OF_TWO_STEPS = """
from pathlib import Path

from platoon.cli.main import main
from platoon.train.trainer import run
from platoon.train.trainer.budget import TimeBudget

metrics = Path("runs/requeued/metrics.jsonl")

def clock():
    return 1e9 if metrics.exists() and metrics.read_bytes().count(b"\\n") >= 2 else 0.0

run.TimeBudget = lambda budget_s, *_: TimeBudget(budget_s, clock, 0.0)
main()
"""


@dataclass(frozen=True)
class Site:
    """A clone on the cluster."""

    clone: Clone
    slurm: dict[str, str]

    def ask(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.clone.root, env=self.variables(), capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout

    def variables(self) -> dict[str, str]:
        return {**self.clone.environment(), **self.slurm}

    def submit(self, name: str, *arguments: str, limit: str, program: Sequence[str] = ("-m", "platoon")) -> str:
        """Submits `platoon train` of the recipe's RL run by hand; the job's id. The exit code goes to `<name>.code`."""
        command = shlex.join(
            [sys.executable, *program, "train", RL, *arguments, "--run", name, "--site", "profiles/local/site.yaml"]
        )
        # A shell that lives on until its child has saved: a site's own script would use exec and leave the code to Slurm.
        script = (
            f"trap : TERM; {command} & wait $!; code=$?; [ $code -le 128 ] || {{ wait $!; code=$?; }}; echo $code > {name}.code"
        )
        options = ["--parsable", "--time", limit, "--cpus-per-task", "2", "--mem", "3000", "--output", f"{name}.log"]
        return self.ask("sbatch", *options, "--wrap", script).strip()

    def job_of(self, rule: str, unit: str) -> str:
        """The id of the running job of a rule, by the comment that the submitter gives it."""
        jobs = self.ask("squeue", "--noheader", "--states=RUNNING", "--format=%i %k").splitlines()
        (found,) = [line.split()[0] for line in jobs if rule in line and unit in line]
        return found

    def rows(self, run: str) -> list[dict[str, Any]]:
        path = self.clone.root / "runs" / run / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    def read(self, name: str) -> str:
        path = self.clone.root / name
        return path.read_text() if path.exists() else ""


def wait_for(true: Callable[[], object], limit_s: float, told: Callable[[], str]) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, told()
        time.sleep(0.2)


@pytest.fixture(scope="module")
def site(cluster: dict[str, str], checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(clone_of(checkout, tmp_path_factory.mktemp("site") / "clone"), cluster)


def test_the_command_as_typed_plans_from_an_empty_home(site: Site, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    dry = site.clone.run(sys.executable, "-m", "snakemake", "--profile", "slurm", "train", "-n", **{**site.slurm, **home})
    assert dry.returncode == 0, dry.stdout + dry.stderr
    assert re.search(r"^Job \d+: train main$", dry.stdout, re.MULTILINE)


def test_a_recipe_trains_to_its_end_over_signals_and_limits(site: Site) -> None:
    """Slurm's least time limit is a minute, and a job that is requeued waits for two: both run beside the recipe."""
    limited = site.submit("limited", "train.max_training_steps=5000", "--time-budget", "720m", limit="1")
    (site.clone.root / "budget.py").write_text(BUDGET_OF_TWO_STEPS)
    arguments = ("train.max_training_steps=5000", "--time-budget", "1s", "--requeue")
    requeued = site.submit("requeued", *arguments, limit="30", program=["budget.py"])
    recipe_trains_over_a_job_that_got_term_and_one_that_was_killed(site)
    time_limit_saves_and_exits_143_and_the_next_attempt_goes_on(site, limited)
    budget_that_is_used_up_requeues_the_job_until_it_moves_no_more(site, requeued)
    wait_for(lambda: not site.ask("squeue", "--noheader", "--format=%i", "--states=RUNNING,PENDING,COMPLETING"), 60, str)


def recipe_trains_over_a_job_that_got_term_and_one_that_was_killed(site: Site) -> None:
    """The plain profile: its retries go on with the run, and each step is told once."""
    config = site.clone.root / RL
    config.write_text(config.read_text().replace("max_training_steps: 2", f"max_training_steps: {STEPS}"))
    command = [sys.executable, "-m", "snakemake", "--profile", "slurm", "--config", f"recipe={RECIPE}", "--", "train"]
    process = site.clone.start(*command, **site.slurm)

    def told() -> str:
        os.killpg(process.pid, signal.SIGINT)
        return f"{process.communicate(timeout=60)[0]}\n{site.read('logs/train/main.log')}"

    def until_step(step: int) -> None:
        wait_for(lambda: process.poll() is not None or len(site.rows("main")) >= step, 240, told)
        assert process.poll() is None, told()

    until_step(3)
    trainer = json.loads(site.read("runs/main/process.json"))["pid"]
    assert b"--requeue" in Path(f"/proc/{trainer}/cmdline").read_bytes().split(b"\0")
    site.ask("scancel", "--signal=TERM", site.job_of("train_run", "main"))
    until_step(8)
    os.kill(json.loads(site.read("runs/main/process.json"))["pid"], signal.SIGKILL)
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    receipt = json.loads(site.read("results/main/train.json"))
    assert [point["step"] for point in receipt["curve"]] == list(range(1, STEPS + 1))
    assert [row["step"] for row in site.rows("main")] == list(range(1, STEPS + 1))
    saved = [json.loads(line) for line in site.read("runs/main/checkpoints.jsonl").splitlines()]
    assert [row["start"] for row in saved if row["name"].endswith("_interrupted")] == [1], "TERM saves, and nothing else stopped it"
    assert saved[-1]["start"] == 3, "one start for each of the three attempts"
    assert set(json.loads(site.read("results/summary.json"))["evaluations"]) == {"before", "after"}


def time_limit_saves_and_exits_143_and_the_next_attempt_goes_on(site: Site, limited: str) -> None:
    wait_for(lambda: site.read("limited.code"), 240, lambda: site.read("limited.log"))
    assert site.read("limited.code").strip() == "143", site.read("limited.log")
    rows = site.rows("limited")
    assert rows, site.read("limited.log")
    assert "JobState=TIMEOUT" in site.ask("scontrol", "show", "job", limited)
    saved = json.loads(site.read("runs/limited/checkpoints.jsonl").splitlines()[-1])
    assert saved["name"].endswith("_interrupted") and saved["batch"] == len(rows)
    steps = len(rows) + 2
    (site.clone.root / "limited.code").unlink()
    site.submit("limited", f"train.max_training_steps={steps}", "--time-budget", "720m", limit="5")
    wait_for(lambda: site.read("limited.code"), 120, lambda: site.read("limited.log"))
    assert site.read("limited.code").strip() == "0", site.read("limited.log")
    assert [row["step"] for row in site.rows("limited")] == list(range(1, steps + 1))
    assert f"going on after step {len(rows)}" in site.read("limited.log")


def budget_that_is_used_up_requeues_the_job_until_it_moves_no_more(site: Site, requeued: str) -> None:
    """The second start finds its budget used up before a step: it ends with 75."""
    wait_for(lambda: site.read("requeued.code").strip() == "75", 300, lambda: site.read("requeued.log"))
    assert " Restarts=1 " in site.ask("scontrol", "show", "job", "--oneliner", requeued)
    told = site.read("runs/requeued/logs/train.log")
    rows = site.rows("requeued")
    saved = [json.loads(line) for line in site.read("runs/requeued/checkpoints.jsonl").splitlines()]
    assert [row["batch"] for row in saved if row["name"].endswith("_interrupted")] == [len(rows)] and len(rows) >= 2
    assert told.count("the time budget is used up") == 2
