"""What a start finds in its run directory, judged whole before anything is touched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platoon.train.checkpoints.rows import checkpoint_rows, deleted_paths
from platoon.train.run_directory.identity import check_identity
from platoon.train.trainer.metrics_log import read_metrics


def check_found(run_dir: Path, identity: Mapping[str, Any], run: str) -> bool:
    """Whether the directory is this run's already; touches nothing.

    Raises ConfigError for rows that no start could have written, IdentityError when the directory is another run's.
    """
    checkpoint_rows(run_dir)
    deleted_paths(run_dir)
    read_metrics(run_dir)
    return check_identity(run_dir, identity, run)
