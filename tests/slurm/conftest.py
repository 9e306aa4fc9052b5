"""A Slurm of one node for the group, and a clone of the checkout as a user has it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "setup" / "slurm.sh"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment that reaches the cluster. Everything of it lies in one directory and ends with the session."""
    if shutil.which("slurmctld", path=os.environ.get("PATH", "") + ":/usr/sbin") is None:
        pytest.skip("no slurmctld: apt-get install slurmctld slurmd slurm-client munge")
    home = tmp_path_factory.mktemp("slurm")
    for parent in (home, *home.parents[:2]):
        # The daemons refuse a socket below a directory that others cannot enter.
        parent.chmod(parent.stat().st_mode | 0o055)
    subprocess.run([SCRIPT, "up", home], check=True, timeout=60)
    yield {**os.environ, "SLURM_CONF": str(home / "slurm.conf")}
    subprocess.run([SCRIPT, "down", home], check=True, timeout=60)
