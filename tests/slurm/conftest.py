"""A Slurm of one node for the group, and a clone of the checkout as a user has it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "setup" / "slurm.sh"


@pytest.fixture(scope="session")
def cluster() -> Iterator[dict[str, str]]:
    """The environment that reaches the cluster. Everything of it lies in one directory and ends with the session."""
    if shutil.which("slurmctld", path=os.environ.get("PATH", "") + ":/usr/sbin") is None:
        pytest.skip("no slurmctld: apt-get install slurmctld slurmd slurm-client munge")
    # Not below pytest's directory: the daemons refuse a socket that others cannot reach, and each session of pytest closes its own.
    with tempfile.TemporaryDirectory(prefix="platoon-slurm-") as name:
        home = Path(name)
        home.chmod(0o755)
        try:
            subprocess.run([SCRIPT, "up", home], check=True, timeout=60)
            yield {**os.environ, "SLURM_CONF": str(home / "slurm.conf")}
        finally:
            subprocess.run([SCRIPT, "down", home], check=True, timeout=60)
