"""`snakemake --profile local train`: what it makes, what it makes again and why, and what it refuses."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.conftest import RECIPE, Clone

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

NOTHING = "Nothing to be done"
RL = "tests/recipes/tiny/rl.yaml"


def planned(output: str) -> dict[str, str]:
    """Job -> reason, as a dry run prints them."""
    lines, jobs = output.splitlines(), {}
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("Job ") and ": " in line:
            jobs[line.partition(": ")[2]] = following.removeprefix("Reason: ")
    return jobs


def test_the_recipe_is_whole(trained: Clone) -> None:
    summary = json.loads((trained.root / "results/summary.json").read_text())
    assert set(summary["runs"]) == {"warm", "main"}
    assert set(summary["evaluations"]) == {"before", "after"}
    for evaluation in summary["evaluations"].values():
        assert evaluation["rollouts"] > 0
        assert 0 <= evaluation["mean_reward"] <= 1
        assert evaluation["tokens"]["completion"] > 0
        assert evaluation["seconds"]["total"] > 0
    assert summary["runs"]["main"]["steps"] == 2
    page = (trained.root / "results/report.html").read_text()
    assert "One trajectory, whole" in page
    for unit in ("warm", "main", "eval-before", "eval-after"):
        names = {path.name for path in (trained.root / f"results/{unit}/inputs").iterdir()}
        assert names == {"config.yaml", "datasets.lock.json", "plan.json", "image_map.json"}


def test_a_second_call_has_nothing_to_do(trained: Clone) -> None:
    again = trained.snakemake()
    assert again.returncode == 0
    assert NOTHING in again.stdout + again.stderr


def test_a_dry_run_costs_little_more_than_an_empty_one(trained: Clone, tmp_path: Path) -> None:
    """A ratio of CPU seconds taken in turns: start-up is nearly all of both."""
    (tmp_path / "Snakefile").write_text("rule all:\n    input: []\n")
    ours = [sys.executable, "-m", "snakemake", "-n", "--profile", "local", "--config", f"recipe={RECIPE}", "--", "train"]
    empty = [sys.executable, "-m", "snakemake", "-n", "-c1"]
    ratios = []
    for _ in range(3):
        baseline = cpu_s(empty, tmp_path, {})
        ratios.append(cpu_s(ours, trained.root, {"PYTHONPATH": str(trained.root)}) / baseline)
    assert sorted(ratios)[1] <= 1.2, ratios


def cpu_s(command: list[str], cwd: Path, env: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=cwd, env={**os.environ, **env}, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_a_touched_file_reruns_nothing(trained: Clone) -> None:
    for path in [*(trained.root / "recipes/quickstart/tasks").rglob("*"), *(trained.root / "tests/recipes/tiny").iterdir()]:
        path.touch()
    again = trained.snakemake("-n")
    assert NOTHING in again.stdout + again.stderr, again.stdout


def test_a_changed_task_reruns_what_depends_on_it(trained: Clone) -> None:
    """The plan names the file; runs without that dataset are left alone."""
    task = first_task(trained)
    text = task.read_bytes()
    try:
        task.write_bytes(text + b"\n")
        jobs = planned(trained.snakemake("-n").stdout)
    finally:
        task.write_bytes(text)
    assert {"lock the datasets of main", "train main", "evaluate main: after"} <= set(jobs)
    assert not any("warm" in job and "evaluate" not in job for job in jobs)
    assert str(task.relative_to(trained.root)) in jobs["lock the datasets of main"]


def first_task(clone: Clone) -> Path:
    name = (clone.root / "tests/recipes/tiny/tasks.txt").read_text().split()[0]
    return clone.root / "recipes/quickstart/tasks" / name / "instruction.md"


def test_a_longer_plan_extends_the_run_and_another_identity_is_refused(trained: Clone) -> None:
    config, receipt = trained.root / RL, trained.root / "results/main/train.json"
    text, before = config.read_text(), receipt.read_bytes()
    rows = (trained.root / "runs/main/checkpoints.jsonl").read_bytes()
    try:
        config.write_text(text.replace("group_size: 2", "group_size: 4"))
        refused = trained.snakemake()
        assert refused.returncode != 0
        log = refused.stdout + refused.stderr
        assert "group_size" in log
        assert "runs." in log, "the refusal says to give the run another name"
        assert (trained.root / "runs/main/checkpoints.jsonl").read_bytes() == rows, "nothing of the run was touched"
    finally:
        config.write_text(text)
    back = trained.snakemake()
    assert back.returncode == 0, back.stdout + back.stderr
    assert receipt.read_bytes() == before, "going back restores the receipt"
    try:
        config.write_text(text.replace("max_training_steps: 2", "max_training_steps: 3"))
        longer = trained.snakemake()
        assert longer.returncode == 0, longer.stdout + longer.stderr
        grown = json.loads(receipt.read_bytes())
        assert grown["steps"] == 3
        assert [point["step"] for point in grown["curve"]] == [1, 2, 3]
        assert [point["rows_digest"] for point in grown["curve"]][:2] == [
            point["rows_digest"] for point in json.loads(before)["curve"]
        ]
    finally:
        config.write_text(text)


def test_rebuild_makes_the_same_inputs(trained: Clone) -> None:
    rebuilt = trained.snakemake(target="rebuild")
    assert rebuilt.returncode == 0, rebuilt.stdout + rebuilt.stderr
