"""`lock.json`: what this start ran with. Provenance only: nothing compares it, and it may name hosts, times and paths."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platoon.artifacts.canonical import read_json
from platoon.artifacts.publish import WRITABLE, publish_json
from platoon.host.processes import host_name

FILE = "lock.json"
DISTRIBUTIONS = ("platoon", "tinker", "tinker-cookbook", "torch", "transformers", "tokenizers", "numpy", "pyarrow", "hpc-sandbox")


def provenance(start: int) -> dict[str, Any]:
    """Versions, host, command line and time of this process."""
    return {
        "start": start,
        "versions": {name: _version(name) for name in DISTRIBUTIONS},
        "python": platform.python_version(),
        "hostname": host_name(),
        "job_id": os.environ.get("SLURM_JOB_ID"),
        "argv": sys.argv,
        "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def write_provenance(run_dir: Path, value: Mapping[str, Any]) -> None:
    """Replaces the file whole."""
    publish_json(run_dir / FILE, dict(value), WRITABLE)


def add_provenance(run_dir: Path, key: str, value: Any) -> None:
    """Merges one more key into the file of this start."""
    write_provenance(run_dir, {**read_json(run_dir / FILE, "provenance"), key: value})


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
