"""The receipt of a finished training run, from its row log and its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import platoon
from platoon.config.numbers import score
from platoon.config.text import counted
from platoon.errors import IdentityError, PlatoonError, Problem
from platoon.train.checkpoints.rows import checkpoint_rows, deleted_paths, policy_file
from platoon.train.metrics import FILE as METRICS_FILE
from platoon.train.policy.spec import MAIN
from platoon.train.run_directory.identity import own_run_advice
from platoon.train.trainer.metrics_log import COMPONENTS, CURVE, TIMES, read_metrics

PATHS = ("state_path", "sampler_path")


def finished_row(run_dir: Path, planned_steps: int) -> dict[str, Any] | None:
    """The newest checkpoint row of exactly so many steps whose weights were not pruned; None when there is none."""
    gone = deleted_paths(run_dir)
    exact = [row for row in checkpoint_rows(run_dir) if row["batch"] == planned_steps and not gone & _paths(row)]
    return exact[-1] if exact else None


def refuse_trained_beyond(run: str, run_dir: Path, planned_steps: int, key: str) -> None:
    """Raises IdentityError for a plan shorter than what the run has trained. key: of the setting that bounds the plan."""
    rows = checkpoint_rows(run_dir)
    trained = rows[-1]["batch"] if rows else 0
    if trained <= planned_steps:
        return
    raise IdentityError(
        Problem(
            f"the run {run!r} is planned for {counted(planned_steps, 'step')}, but has trained {trained}, and no whole checkpoint "
            f"of step {planned_steps} is kept",
            key=key,
            file=str(policy_file(run_dir, MAIN)),
            advice=f"set it back; or {own_run_advice(run)}",
        )
    )


def refuse_unmeasured(run: str, run_dir: Path, row: Mapping[str, Any]) -> None:
    """Raises PlatoonError for a row up to which no step had a measurement and rows: its weights are those it began with."""
    steps, lost = _metrics(run_dir, row)
    if steps and not lost and not any("train/reward" in step and step.get("batch/rows", 1) for step in steps):
        text = f"run {run}: not one rollout of its {counted(row['batch'], 'step')} gave anything to train on"
        raise PlatoonError(
            f"{text}, so there is no receipt; {run_dir / 'logs' / 'train.log'} says why; to train it again: {own_run_advice(run)}"
        )


def _metrics(run_dir: Path, row: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """The metrics of the steps up to a checkpoint, and for how many of them there are none."""
    steps = [step for step in read_metrics(run_dir) if step["step"] <= row["batch"]]
    return steps, row["batch"] - len(steps)


def _weights(entry: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """What a policy's entry in a row names."""
    return {**{key: entry[key] for key in PATHS}, "policy_version": entry.get("policy_version", row["batch"])}


def _paths(row: Mapping[str, Any]) -> set[str]:
    return {str(entry[key]) for entry in (row, *row.get("policies", {}).values()) for key in PATHS if entry.get(key)}


def receipt_body(run: str, run_dir: Path, row: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """facts: what the configuration says: `trainer`, `identity`, `inputs`, `parent`, `seed`."""
    steps, lost = _metrics(run_dir, row)
    curve = [_point(step) for step in steps]
    checkpoint = {"name": row["name"], **_weights(row, row)}
    return {
        **facts,
        "run": run,
        "steps": row["batch"],
        "checkpoint": {**checkpoint, "step": row["batch"], "weights": row["rows_digest"]},
        "policies": {policy: _weights(entry, row) for policy, entry in row.get("policies", {}).items()},
        "platoon": platoon.__version__,
        "figures": {"steps_without_metrics": lost} if lost else _figures(curve, steps),
        "curve": curve,
    }


def told_figures(run_dir: Path, row: Mapping[str, Any]) -> str:
    """Where the run began and ended, for a person: its reward, else its loss; empty for a run of neither."""
    steps, lost = _metrics(run_dir, row)
    if lost:
        return f"its figures are not known: {run_dir / METRICS_FILE} lacks {lost} of {row['batch']} steps"
    for name, metric in (("reward", "train/reward"), ("loss", "train/loss")):
        values = [step[metric] for step in steps if metric in step]
        if values:
            return f"{name} {score(values[0])} at the first step, {score(values[-1])} at the last"
    return ""


def _point(step: Mapping[str, Any]) -> dict[str, Any]:
    point: dict[str, Any] = {"step": step["step"]}
    for name, place in CURVE.items():
        if name in step:
            target = point
            for key in place[:-1]:
                target = target.setdefault(key, {})
            target[place[-1]] = step[name]
    components = {name.removeprefix(COMPONENTS): value for name, value in step.items() if name.startswith(COMPONENTS)}
    return {**point, "components": components} if components else point


def _figures(curve: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rewards = [point["reward"] for point in curve if "reward" in point]
    figures: dict[str, Any] = {"reward_first": rewards[0], "reward_last": rewards[-1]} if rewards else {}
    if any("rollouts" in point for point in curve):
        figures["rollouts"] = sum(point.get("rollouts", 0) for point in curve)
    for group in ("tokens", "seconds"):
        names = sorted({name for point in curve for name in point.get(group, {})})
        figures[group] = {name: sum(point.get(group, {}).get(name, 0) for point in curve) for name in names}
    if steps:
        figures["seconds"]["total"] = sum(step.get(name, 0.0) for step in steps for name in TIMES)
    return figures
