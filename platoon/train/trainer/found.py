"""What a start finds in its run directory, judged whole before anything is touched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platoon.config.text import counted
from platoon.errors import ConfigError, IdentityError, Problem
from platoon.sandbox.reaping import RECORDS_FILE
from platoon.train.checkpoints.rows import CHECKPOINTS_FILE, DELETED_FILE, checkpoint_rows, deleted_paths, policy_file
from platoon.train.checkpoints.saving import recovery_name
from platoon.train.metrics import FILE as METRICS_FILE
from platoon.train.policy.spec import MAIN
from platoon.train.run_directory.identity import FILE as IDENTITY_FILE
from platoon.train.run_directory.identity import check_identity, own_run_advice
from platoon.train.run_directory.lease import FILE as LEASE_FILE
from platoon.train.run_directory.lease import LOCK as LOCK_FILE
from platoon.train.run_directory.provenance import FILE as PROVENANCE_FILE
from platoon.train.trainer.metrics_log import read_metrics

# What a run directory holds, by the patterns of its names; each lies in a directory that is named before it.
DIRECTORIES = ("logs", "tasks", "tasks/groups", "policies", "policies/*", "rollouts", "rollouts/train")
FILES = (
    *(IDENTITY_FILE, LEASE_FILE, LOCK_FILE, PROVENANCE_FILE, RECORDS_FILE, CHECKPOINTS_FILE, DELETED_FILE, METRICS_FILE),
    *("config.resolved.yaml", "logs/*", "tasks/dispatch-*.json", f"policies/*/{CHECKPOINTS_FILE}"),
)


def refuse_irregular(run_dir: Path) -> None:
    """Raises ConfigError for a file of the run that is none, or a directory that is none: links count as what they lead to."""
    problems = []
    for patterns, is_it, rule in ((DIRECTORIES, Path.is_dir, "a directory"), (FILES, Path.is_file, "a regular file")):
        for path in (path for pattern in patterns for path in _places(run_dir, pattern)):
            try:
                if not is_it(path):
                    problems.append(Problem(f"is not {rule}", file=str(path), advice="move it away, or bring back what it was"))
            except OSError as error:
                problems.append(Problem(f"cannot be looked at: {error.strerror}", file=str(path)))
    if problems:
        raise ConfigError(problems)


def _places(run_dir: Path, pattern: str) -> list[Path]:
    """What lies at the places of a pattern; links that lead nowhere too, which `glob` leaves out where it need not look."""
    head, _, name = pattern.rpartition("/")
    if "*" in name:
        return sorted(run_dir.glob(pattern))
    return [place for parent in (sorted(run_dir.glob(head)) if head else [run_dir]) if os.path.lexists(place := parent / name)]


def check_found(run_dir: Path, identity: Mapping[str, Any], run: str) -> bool:
    """Whether the directory is this run's already; touches nothing. One in which nothing was trained is any run's.

    Raises ConfigError for rows that no start could have written, IdentityError when the directory is another run's, or was trained
    under an identity that is gone: nobody can say then whose weights it holds.
    """
    refuse_irregular(run_dir)
    checkpoints, metrics, deleted = checkpoint_rows(run_dir), read_metrics(run_dir), deleted_paths(run_dir)
    signs = [] if checkpoints else _signs_of_training(run_dir, len(metrics), len(deleted))
    if not checkpoints and not signs:
        return False
    if not check_identity(run_dir, identity, run):
        held = counted(len(checkpoints), "checkpoint") if checkpoints else " and ".join(signs)
        rule = f"is missing, and {held} of the run {run!r} are there: what was trained, and with what, cannot be compared"
        raise IdentityError(Problem(rule, file=str(run_dir / IDENTITY_FILE), advice=_lost_advice(run_dir, run)))
    if signs:
        rule = f"holds no checkpoint, and {' and '.join(signs)} of the run {run!r} are there: its rows are lost"
        raise ConfigError(Problem(rule, file=str(policy_file(run_dir, MAIN)), advice=_lost_advice(run_dir, run)))
    return True


def _signs_of_training(run_dir: Path, metrics: int, deleted: int) -> list[str]:
    """What is only there once a checkpoint was: every start saves before its first step, and its draws and rollouts come later."""
    signs = [f"the metrics of {counted(metrics, 'step')}"] if metrics else []
    if deleted:
        signs.append(f"the names of {counted(deleted, 'deleted path')}")
    if draws := [path for path in run_dir.glob("tasks/dispatch-*.json") if path.name != f"dispatch-s1-{recovery_name(0)}.json"]:
        signs.append(f"the draws of {counted(len(draws), 'checkpoint')}")
    if any(run_dir.glob("rollouts/train/*/*")):
        signs.append("rollouts")
    return signs


def _lost_advice(run_dir: Path, run: str) -> str:
    return f"bring the file back, or move {run_dir} away to train the run anew; or {own_run_advice(run)}"
