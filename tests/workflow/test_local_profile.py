"""`snakemake --profile local train`: what it makes, what it makes again and why, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pytest

from tests.workflow.conftest import RECIPE, Clone

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

NOTHING = "Nothing to be done"
RL = "tests/recipes/tiny/rl.yaml"
TASK = "tests/recipes/tiny/tasks/put-0/instruction.md"


@contextmanager
def edited(path: Path, old: str, new: str) -> Iterator[None]:
    """The file with one text in place of another, then as it was."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    try:
        yield
    finally:
        path.write_text(text)


def contents(directory: Path) -> dict[str, bytes]:
    """Every file of a run directory, read; those of its evaluations are not the trainer's."""
    files = [
        path for path in directory.rglob("*") if path.is_file() and not path.relative_to(directory).parts[0].startswith("eval-")
    ]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


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


def test_another_spelling_of_the_interpreter_has_nothing_to_do(trained: Clone, tmp_path: Path) -> None:
    """A script's first line may say `python3`, and an environment may have moved."""
    elsewhere = tmp_path / "python"
    elsewhere.symlink_to(sys.executable)
    # A link outside of its environment does not find its packages by itself.
    paths = os.pathsep.join([str(trained.root), *(path for path in sys.path if path)])
    again = trained.snakemake("-n", interpreter=str(elsewhere), PYTHONPATH=paths)
    assert NOTHING in again.stdout + again.stderr, again.stdout


def test_a_dry_run_costs_little_more_than_an_empty_one(trained: Clone, tmp_path: Path) -> None:
    """Start-up is nearly all of both. CPU seconds taken in turns, and medians of them: other work of the machine adds to both."""
    (tmp_path / "Snakefile").write_text("rule all:\n    input: []\n")
    ours = [sys.executable, "-m", "snakemake", "-n", "--profile", "local", "--config", f"recipe={RECIPE}", "--", "train"]
    empty = [sys.executable, "-m", "snakemake", "-n", "-c1"]
    turns = [(cpu_s(ours, trained.root, {"PYTHONPATH": str(trained.root)}), cpu_s(empty, tmp_path, {})) for _ in range(3)]
    cost, least = (median(seconds) for seconds in zip(*turns, strict=True))
    assert cost <= 1.2 * least, turns


def cpu_s(command: list[str], cwd: Path, env: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=cwd, env={**os.environ, **env}, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_a_touched_file_reruns_nothing(trained: Clone) -> None:
    for path in (trained.root / "tests/recipes/tiny").rglob("*"):
        path.touch()
    again = trained.snakemake("-n")
    assert NOTHING in again.stdout + again.stderr, again.stdout


def test_a_changed_task_reruns_what_depends_on_it(trained: Clone) -> None:
    """The plan names the file; runs without that dataset are left alone."""
    with edited(trained.root / TASK, "put", "Put"):
        jobs = planned(trained.snakemake("-n").stdout)
    assert {"lock the datasets of main", "train main", "evaluate warm: before", "evaluate main: after"} <= set(jobs)
    assert not any(job.endswith("warm") for job in jobs), "the warm start reads no task"
    assert TASK in jobs["lock the datasets of main"]


def test_a_figure_that_was_removed_is_made_again(trained: Clone) -> None:
    summary = trained.root / "results/summary.json"
    before = summary.read_bytes()
    summary.unlink()
    assert trained.snakemake().returncode == 0
    assert summary.read_bytes() == before


def test_another_identity_is_refused_and_going_back_restores_the_receipt(trained: Clone) -> None:
    config, receipt, run_dir = trained.root / RL, trained.root / "results/main/train.json", trained.root / "runs/main"
    before, held = receipt.read_bytes(), contents(run_dir)
    with edited(config, "group_size: 2", "group_size: 4"):
        refused = trained.snakemake()
        assert refused.returncode != 0
        log = refused.stdout + refused.stderr
        assert "train.workflow_config.group_size: the run 'main' was trained with 2, this configuration says 4" in log
        assert "runs.main-2" in log, "the refusal says to give the run another name"
        assert log.count("was trained with 2") == 1 and "message: None" not in log and "CalledProcessError" not in log
        assert "failed: train main (exit status 78: configuration refused" in log and "; log: logs/train/main.log)" in log
        assert contents(run_dir) == held, "nothing of the run was touched"
        assert not receipt.exists()
    back = trained.snakemake()
    assert back.returncode == 0, back.stdout + back.stderr
    assert receipt.read_bytes() == before
    assert contents(run_dir) == held, "the receipt comes from what the run directory says"


def test_a_longer_plan_extends_the_run(trained: Clone) -> None:
    receipt = trained.root / "results/main/train.json"
    before = receipt.read_bytes()
    with edited(trained.root / RL, "max_training_steps: 2", "max_training_steps: 3"):
        longer = trained.snakemake()
        assert longer.returncode == 0, longer.stdout + longer.stderr
        grown = json.loads(receipt.read_bytes())
        assert grown["steps"] == 3
        assert [point["step"] for point in grown["curve"]] == [1, 2, 3]
        assert grown["curve"][:2] == json.loads(before)["curve"], "the steps that were there are kept as they were"
    assert trained.snakemake().returncode == 0
    assert json.loads(receipt.read_bytes())["curve"] == json.loads(before)["curve"]


def test_rebuild_makes_the_same_inputs(trained: Clone) -> None:
    rebuilt = trained.snakemake(targets=("rebuild",))
    assert rebuilt.returncode == 0, rebuilt.stdout + rebuilt.stderr
    assert "verified: warm, main, eval-before, eval-after" in rebuilt.stdout + rebuilt.stderr


def test_verify_names_the_first_difference(trained: Clone) -> None:
    with edited(trained.root / TASK, "put", "Put"):
        differs = trained.platoon("verify", "main", "--recipe", RECIPE, "--site", "profiles/local/site.yaml")
    assert differs.returncode == 1
    assert "main/inputs/datasets.lock.json:12: published" in differs.stderr
    assert "Traceback" not in differs.stderr


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("recipes/quikstart/recipe.yaml", None, "no such recipe (did you mean recipes/quickstart/recipe.yaml?)"),
        ("broken.yaml", "runs: {a: {config: x.yaml}\n", "broken.yaml:2: is not YAML 1.2"),
        ("broken.yaml", "rnus: {a: {config: x.yaml}}\n", "broken.yaml: rnus: unknown key (did you mean runs?)"),
        ("broken.yaml", "runs: {a: {config: x.yaml}}\n", "broken.yaml: runs.a.config: no such file: x.yaml"),
    ],
)
def test_a_recipe_at_fault_is_told_without_frames_of_our_code(trained: Clone, name: str, text: str | None, told: str) -> None:
    path = trained.root / name
    if text is not None:
        path.write_text(text)
    try:
        refused = trained.snakemake("-n", recipe=name)
    finally:
        path.unlink(missing_ok=True)
    output = refused.stdout + refused.stderr
    assert refused.returncode == 1 and told in output and f"platoon config validate {name}" in output, output
    assert "/platoon/" not in output and "Traceback" not in output, output


def test_other_results_have_logs_of_their_own(trained: Clone) -> None:
    for settings, logs in ((("results=other/",), "other/logs/"), (("results=other", "logs=mine"), "mine/")):
        planned = trained.snakemake(*settings, "-n", "--printshellcmds", targets=("prepare",)).stdout
        places = re.findall(r"--log-file (\S+)", planned)
        assert places and all(place.startswith(logs) for place in places), planned


def test_a_workflow_of_a_user_imports_ours(trained: Clone, tmp_path: Path) -> None:
    """As a module under a prefix, with a rule of the user's that reads a receipt."""
    (tmp_path / "Snakefile").write_text(f'''
module agents:
    snakefile: "{trained.root}/workflow/Snakefile"
    config: {{"recipe": "{trained.root / RECIPE}"}}

use rule * from agents as agents_*

rule paper:
    default_target: True
    input: "results/main/eval-after.json"
    output: "paper.txt"
    message: "write the paper"
    shell: "cp {{input}} {{output}}"
''')
    profile = str(trained.root / "profiles/local")
    command = [sys.executable, "-m", "snakemake", "-n", "--directory", str(tmp_path), "--snakefile", str(tmp_path / "Snakefile")]
    dry = trained.run(*command, "--profile", profile)
    assert dry.returncode == 0, dry.stdout + dry.stderr
    assert {"train warm", "train main", "evaluate main: after", "write the paper"} <= set(planned(dry.stdout))
