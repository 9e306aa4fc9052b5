"""What a start finds in its run directory, judged whole before anything is touched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platoon.config.text import counted
from platoon.errors import IdentityError, Problem
from platoon.train.checkpoints.rows import checkpoint_rows, deleted_paths
from platoon.train.run_directory.identity import FILE, check_identity, own_run_advice
from platoon.train.trainer.metrics_log import read_metrics


def check_found(run_dir: Path, identity: Mapping[str, Any], run: str) -> bool:
    """Whether the directory is this run's already; touches nothing. One in which nothing was trained is any run's.

    Raises ConfigError for rows that no start could have written, IdentityError when the directory is another run's, or was trained
    under an identity that is gone: nobody can say then whose weights it holds.
    """
    checkpoints, metrics = checkpoint_rows(run_dir), read_metrics(run_dir)
    deleted_paths(run_dir)
    if not checkpoints and not metrics:
        return False
    if not check_identity(run_dir, identity, run):
        held = f"{counted(len(checkpoints), 'checkpoint')} and the metrics of {counted(len(metrics), 'step')}"
        rule = f"is missing, and {held} of the run {run!r} are there: what they were trained with cannot be compared"
        advice = f"bring the file back, or move {run_dir} away to train the run anew; or {own_run_advice(run)}"
        raise IdentityError(Problem(rule, file=str(run_dir / FILE), advice=advice))
    return True
