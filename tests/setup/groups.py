"""The test groups, what each needs, and the command that runs those whose tools are here.

`groups.py run` runs each present group in turn and ends with a table: what ran, what was left out and why. With CI=true a group
that is left out is a failure: `.ci/run` installs every tool.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NO_TESTS_COLLECTED = 5


@dataclass(frozen=True)
class Group:
    """missing: what the group lacks here, or None. options: more arguments for pytest."""

    name: str
    what: str
    missing: Callable[[], str | None]
    options: tuple[str, ...] = ()


def _lacks_model() -> str | None:
    lacking = [name for name in ("torch", "tinker") if importlib.util.find_spec(name) is None]
    return f"no {' and '.join(lacking)}: pip install '.[local]'" if lacking else None


def _lacks_slurm() -> str | None:
    lacking = [name for name in ("slurmctld", "slurmd", "munged") if shutil.which(name, path=_SBIN) is None]
    return f"no {', '.join(lacking)}: apt-get install slurmctld slurmd slurm-client munge" if lacking else None


_SBIN = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))

GROUPS = (
    Group("unit", "Python and the compiled core alone", lambda: None),
    Group("process", "commands in process sandboxes, servers on loopback", lambda: None),
    Group("model", "torch and the tinker SDK against the embedded service", _lacks_model),
    Group("slurm", "a one-node Slurm started for the tests", _lacks_slurm),
)


def run(names: list[str]) -> int:
    """Runs the named groups, or all. Returns 1 when a group failed, or was left out where none may be."""
    rows, failed = [], False
    for group in GROUPS:
        if names and group.name not in names:
            continue
        missing = group.missing()
        if missing:
            rows.append((group.name, "left out", missing))
            failed |= os.environ.get("CI") == "true"
            continue
        started = time.monotonic()
        print(f"== {group.name}: {group.what}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-m", group.name, *group.options]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        failed |= code != 0
        verdict = "passed" if code == 0 else "no tests" if code == NO_TESTS_COLLECTED else "failed"
        rows.append((group.name, verdict, f"{time.monotonic() - started:.0f} s"))
    print("\ntest groups")
    for name, verdict, detail in rows:
        print(f"  {name:8} {verdict:9} {detail}")
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1:2] != ["run"]:
        sys.exit(f"usage: {sys.argv[0]} run [GROUP...]")
    sys.exit(run(sys.argv[2:]))
