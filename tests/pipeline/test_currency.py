"""Figures that are not of what a results folder holds now are told, by `platoon show` too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from platoon.artifacts.digests import sha256_file
from platoon.artifacts.receipts import write_receipt
from platoon.cli.show import show
from platoon.errors import ConfigError
from platoon.pipeline.currency import outdated
from platoon.pipeline.layout import inputs_of, receipt_of
from platoon.pipeline.summary import summarise

pytestmark = pytest.mark.unit

EARLIER = "these are figures of an earlier"


def unit_inputs(results: Path, unit: str) -> dict[str, str]:
    directory = inputs_of(results, unit)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.yaml").write_text(unit)
    return {"config.yaml": sha256_file(directory / "config.yaml")}


def train(results: Path, run: str, weights: str, parent: dict[str, Any] | None = None, steps: int = 2) -> dict[str, Any]:
    paths = {"state_path": f"tinker://{run}/weights/2", "sampler_path": f"tinker://{run}/sampler_weights/2", "policy_version": 2}
    body = {
        "run": run,
        "trainer": "sft",
        "steps": steps,
        "checkpoint": {**paths, "weights": weights},
        "policies": {"main": paths},
        "parent": parent,
        "inputs": unit_inputs(results, run),
    }
    write_receipt(receipt_of(results, run), "train", body)
    return {**body, "kind": "train"}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Of a warm run, a run that starts from it, and an evaluation of that."""
    main = train(tmp_path, "main", "sha256:m", {"run": "warm", "weights": "sha256:w"})
    after = {"name": "after", "run": "main", "weights": "sha256:m", "inputs": unit_inputs(tmp_path, "eval-after")}
    write_receipt(receipt_of(tmp_path, "main", "after"), "evaluation", after)
    summary = summarise([train(tmp_path, "warm", "sha256:w"), main, {**after, "kind": "evaluation"}])
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    return tmp_path


def told(results: Path) -> list[str]:
    return list(outdated(results, json.loads((results / "summary.json").read_text())))


CHANGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "nothing": (lambda results: None, []),
    "no_inputs": (lambda results: (inputs_of(results, "main") / "config.yaml").unlink(), []),
    "refused": (
        lambda results: receipt_of(results, "main").unlink(),
        [
            f"main: no receipt {{results}}/main/train.json now; {EARLIER} run",
            f"after: main, which it is of, has no receipt now; {EARLIER} evaluation",
        ],
    ),
    "edited": (
        lambda results: (inputs_of(results, "eval-after") / "config.yaml").write_text("other"),
        [f"after: its inputs are others now (config.yaml); {EARLIER} evaluation"],
    ),
    "trained_again": (
        lambda results: train(results, "warm", "sha256:other"),
        [f"main: warm, which it is of, is another one now; {EARLIER} run"],
    ),
    "torn": (
        lambda results: receipt_of(results, "main", "after").write_text("{"),
        [f"after: {{results}}/main/eval-after.json cannot be read; {EARLIER} evaluation"],
    ),
    "not_summed": (
        lambda results: train(results, "warm", "sha256:w", steps=3),
        [f"warm: its receipt is another one now; {EARLIER} run"],
    ),
}


@pytest.mark.parametrize("which", CHANGES)
def test_what_is_of_an_earlier_run_is_told(which: str, results: Path) -> None:
    change, lines = CHANGES[which]
    change(results)
    assert told(results) == [line.format(results=results) for line in lines]


ROW = {"tokens": {}, "seconds": {}, "mean_reward": None}


@pytest.mark.parametrize(
    ("summary", "told"),
    [
        ([], "not a summary of rule 1"),
        (None, "not a summary of rule 1"),
        ({"rule": 2, "runs": {}, "evaluations": {}}, "not a summary of rule 1"),
        ({}, "not a summary of rule 1"),
        ({"rule": 1, "runs": {}}, "evaluations: is missing"),
        ({"rule": 1, "runs": {"a": 5}, "evaluations": {}}, "runs.a: must be a mapping"),
        ({"rule": 1, "runs": [], "evaluations": {}}, "runs: must be a mapping"),
        ({"rule": 1, "runs": {}, "evaluations": {"a": {}}}, "evaluations.a.components: is missing"),
        ({"rule": 1, "runs": {"a": {**ROW, "tokens": [1]}}, "evaluations": {}}, "runs.a.tokens: must be a mapping"),
        ({"rule": 1, "runs": {"a": {**ROW, "parent": []}}, "evaluations": {}}, "runs.a.parent: must be a text"),
        (
            {"rule": 1, "runs": {"a": {**ROW, "seconds": {"total": "1"}}}, "evaluations": {}},
            "runs.a.seconds.total: must be a number",
        ),
    ],
)
def test_a_summary_of_another_form_is_refused(summary: Any, told: str, tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    error = CliRunner().invoke(show, [str(tmp_path)]).exception
    assert isinstance(error, ConfigError) and f"{tmp_path}/summary.json: {told}" in str(error)


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("results", "results/summary.json: no such summary (write it with `snakemake --profile local train`)"),
        ("nowhere", "nowhere: no such file or directory (known here: mine)"),
        ("mime", "mime: no such file or directory (did you mean mine?)"),
        ("sub/x", "sub/x: no such file or directory (did you mean sub/z?)"),
        ("sub", "sub/summary.json: no such summary (known here: sub/y, sub/z)"),
        (
            "empty/x",
            "empty/x: no such file or directory "
            "(write it with `snakemake --profile local train --config recipe=RECIPE results=empty/x`)",
        ),
        ("mine/summary.json", "mine/summary.json: is no directory (known here: mine)"),
    ],
)
def test_a_folder_without_a_summary(named: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next command is for this folder, or the folder that has one."""
    monkeypatch.chdir(tmp_path)
    for folder in ("results", "mine", "sub/y", "sub/z", "empty"):
        Path(folder).mkdir(parents=True)
    for folder in ("mine", "sub/y", "sub/z"):
        Path(folder, "summary.json").write_text("{}")
    assert str(CliRunner().invoke(show, [named]).exception) == told


def test_an_evaluation_of_no_run_is_shown(tmp_path: Path) -> None:
    row = {**ROW, "run": None, "components": {"reward": 1}}
    (tmp_path / "summary.json").write_text(json.dumps({"rule": 1, "runs": {"r": ROW}, "evaluations": {"base": row}}))
    shown = CliRunner().invoke(show, [str(tmp_path)])
    assert shown.exit_code == 0 and "base" in shown.stdout


def test_show_tells_it_below_the_tables_and_beside_the_json(results: Path) -> None:
    assert EARLIER not in CliRunner().invoke(show, [str(results)]).output
    receipt_of(results, "main").unlink()
    (results / "report.html").touch()
    shown = CliRunner().invoke(show, [str(results)]).stdout.splitlines()
    assert shown[-3:] == [f"report: {results}/report.html, of these same figures", *told(results)]
    found = CliRunner().invoke(show, [str(results), "--json"])
    assert json.loads(found.stdout)["runs"] and found.stderr.splitlines() == told(results)
