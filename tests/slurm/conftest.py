"""A Slurm of one node for the group, and a clone of the checkout as a user has it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "setup" / "slurm.sh"
TRY_AGAIN = 75
OTHERS_TURN_S = 900


def up(home: Path) -> None:
    """Starts the cluster. One machine has one at a time: the tests of another checkout are waited for."""
    deadline = time.monotonic() + OTHERS_TURN_S
    while True:
        started = subprocess.run([SCRIPT, "up", home], capture_output=True, text=True, timeout=60, check=False)
        if started.returncode == 0:
            return
        if started.returncode != TRY_AGAIN or time.monotonic() > deadline:
            pytest.fail(started.stdout + started.stderr, pytrace=False)
        time.sleep(5)


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
            up(home)
            yield {**os.environ, "SLURM_CONF": str(home / "slurm.conf")}
        finally:
            subprocess.run([SCRIPT, "down", home], check=True, timeout=60)
