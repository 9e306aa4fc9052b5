"""The headline figures of a results folder, from receipts alone: the same receipts give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from platoon.artifacts.canonical import read_json
from platoon.artifacts.forms import Form, form_faults
from platoon.config.files import path_fault
from platoon.config.model import nearest
from platoon.config.text import few, short_path
from platoon.errors import ConfigError, Problem
from platoon.pipeline.layout import DEFAULT_RESULTS

RULE = 1
FILE = "summary.json"
FIGURES: Form = {
    "mean_reward": float | None,
    "rollouts": int | None,
    "tokens": {"completion": int | None},
    "seconds": {"total": float | None},
}
FORM: Form = {
    "runs": {"*": {**FIGURES, "parent": str | None, "steps": int | None}},
    "evaluations": {"*": {**FIGURES, "run": str | None, "components": {"*": float | None}}},
}


def read_summary(results: Path) -> dict[str, Any]:
    """The summary of a results folder, with the fields that are shown.

    Raises ConfigError with each that is of another form, and for a folder without one: with those near it that have one, else with
    the command that writes it.
    """
    path, advice = results / FILE, _advice(results)
    if (fault := path_fault(results, "directory")) is not None:
        raise ConfigError(Problem(fault, file=short_path(str(results)), advice=nearest(str(results), _near(results)) or advice))
    if not path.exists() and (below := _with_summary(results)):
        raise ConfigError(Problem("no such summary", file=short_path(str(path)), advice=f"known here: {few(below)}"))
    value = read_json(path, "summary", advice)
    if not isinstance(value, dict) or value.get("rule") != RULE:
        raise ConfigError(Problem(f"not a summary of rule {RULE}", file=str(path), advice=advice))
    if faults := list(form_faults(value, FORM)):
        raise ConfigError(Problem(rule, key=key, file=str(path), advice=advice) for key, rule in faults)
    return value


def _advice(results: Path) -> str:
    own = "" if results == DEFAULT_RESULTS else f" --config recipe=RECIPE results={short_path(str(results))}"
    return f"write it with `snakemake --profile local train{own}`"


def _near(results: Path) -> list[str]:
    """Results folders that may be meant."""
    roots = dict.fromkeys((DEFAULT_RESULTS, results.parent))
    return [*(str(root) for root in roots if (root / FILE).is_file()), *(found for root in roots for found in _with_summary(root))]


def _with_summary(parent: Path) -> list[str]:
    """The results folders in a folder; none where it cannot be read."""
    return [] if path_fault(parent, "directory") is not None else sorted(str(path.parent) for path in parent.glob(f"*/{FILE}"))


def summarise(receipts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The value of `summary.json`. Raises ConfigError for two receipts of one name."""
    runs: dict[str, Any] = {}
    evaluations: dict[str, Any] = {}
    for receipt in receipts:
        table, name, row = (
            (runs, receipt["run"], _run(receipt))
            if receipt["kind"] == "train"
            else (evaluations, receipt["name"], _evaluation(receipt))
        )
        if name in table:
            raise ConfigError(Problem(f"two receipts are of {name}", advice="give each receipt once"))
        table[name] = row
    return {"rule": RULE, "runs": runs, "evaluations": evaluations}


def _run(receipt: Mapping[str, Any]) -> dict[str, Any]:
    figures = receipt.get("figures") or {}
    lost = figures.get("steps_without_metrics", 0)
    row = {
        "trainer": receipt.get("trainer"),
        "parent": (receipt.get("parent") or {}).get("run"),
        "steps": receipt.get("steps"),
        "seed": receipt.get("seed"),
        "mean_reward": None if lost else _mean_of_curve(receipt.get("curve") or ()),
        "reward_first": figures.get("reward_first"),
        "reward_last": figures.get("reward_last"),
        "rollouts": figures.get("rollouts"),
        "tokens": figures.get("tokens") or {},
        "seconds": figures.get("seconds") or {},
    }
    return {**row, "steps_without_metrics": lost} if lost else row


def _evaluation(receipt: Mapping[str, Any]) -> dict[str, Any]:
    figures = receipt.get("figures") or {}
    return {
        "run": receipt["run"],
        "step": receipt.get("step"),
        "seed": receipt.get("seed"),
        "mean_reward": figures.get("reward_mean"),
        "rollouts": figures.get("rollouts"),
        "valid": figures.get("valid"),
        "errored": figures.get("errored"),
        "components": figures.get("components") or {},
        "tokens": figures.get("tokens") or {},
        "seconds": figures.get("seconds") or {},
    }


def _mean_of_curve(curve: Iterable[Mapping[str, Any]]) -> float | None:
    """The mean reward over all steps' rollouts; None for a run without rewards."""
    weighted = [(row["reward"], row.get("rollouts") or 1) for row in curve if row.get("reward") is not None]
    total = sum(weight for _, weight in weighted)
    return sum(reward * weight for reward, weight in weighted) / total if total else None
