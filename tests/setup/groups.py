"""The test groups, what each needs, and the command that runs those whose tools are here.

`groups.py run` runs each present group in turn and ends with a table: what ran, what was left out and why. With CI=true a group
that is left out is a failure: `.ci/run` installs every tool. A group that mostly waits for daemons runs beside those after it; one
that asks for more than a machine should be made to have runs when it is named.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from platoon.envs.harbor.sources.harbor_cli import PIN

ROOT = Path(__file__).resolve().parents[2]
NO_TESTS_COLLECTED = 5
Row = tuple[str, str, str]


@dataclass(frozen=True)
class Group:
    """missing: what the group lacks here, or None.

    waits: it mostly waits for daemons, so it runs beside those after it. by_hand: it runs when it is named alone.
    """

    name: str
    what: str
    missing: Callable[[], str | None]
    waits: bool = False
    by_hand: bool = False


def _lacks_model() -> str | None:
    lacking = [name for name in ("torch", "tinker") if importlib.util.find_spec(name) is None]
    return f"no {' and '.join(lacking)}: pip install '.[local]'" if lacking else None


def _lacks_slurm() -> str | None:
    lacking = [name for name in ("slurmctld", "slurmd", "munged") if shutil.which(name, path=_SBIN) is None]
    return f"no {', '.join(lacking)}: apt-get install slurmctld slurmd slurm-client munge" if lacking else None


def _lacks_tools() -> str | None:
    lacking = [name for name in REFERENCE_TOOLS if shutil.which(name) is None]
    return (
        f"no {', '.join(lacking)}: apt-get install {' '.join(sorted({REFERENCE_TOOLS[name] for name in lacking}))}"
        if lacking
        else None
    )


# Each program that a parser is compared with or that fetching calls, and the package that brings it.
REFERENCE_TOOLS = {
    "mksquashfs": "squashfs-tools",
    "unsquashfs": "squashfs-tools",
    "tar2sqfs": "squashfs-tools-ng",
    "rdsquashfs": "squashfs-tools-ng",
    "bsdtar": "libarchive-tools",
    "skopeo": "skopeo",
    "umoci": "umoci",
    "zstd": "zstd",
    "git-lfs": "git-lfs",
}


def _lacks_compose() -> str | None:
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) is not None:
            found = subprocess.run([*command, "version", "--short"], capture_output=True, text=True, check=False)
            if found.returncode == 0 and not found.stdout.startswith("1."):
                return None
    return "no docker compose: python tests/setup/compose.py"


def _lacks_harbor() -> str | None:
    wanted = PIN.partition("==")[2]
    if shutil.which("harbor") is not None:
        found = subprocess.run(["harbor", "--version"], capture_output=True, text=True, check=False)
        if found.stdout.strip() == wanted:
            return None
    return f"no harbor {wanted}: uv tool install {PIN}"


def _lacks_apptainer() -> str | None:
    return None if shutil.which("apptainer") else "no apptainer: tests/setup/apptainer.sh as root"


_SBIN = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))

# Two workers, a file's tests on one of them, in the order of tests/conftest.py: most tests wait for processes they started.
WORKERS = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")

GROUPS = (
    Group("unit", "Python and the compiled core alone", lambda: None),
    Group("slurm", "a one-node Slurm started for the tests", _lacks_slurm, waits=True),
    Group("process", "commands in process sandboxes, servers on loopback", lambda: None),
    Group("model", "torch and the tinker SDK against the embedded service", _lacks_model),
    Group("tools", "tools that fetching calls, and those that parsers are compared with", _lacks_tools),
    Group("hpc", "the container runtimes of clusters", _lacks_apptainer),
    Group("docker", "docker's compose as the oracle of compose plans", _lacks_compose),
    Group("harbor", "the Harbor CLI itself at its pin", _lacks_harbor, by_hand=True),
)


@dataclass
class Running:
    """A group's pytest. output: where it writes while another group has the screen."""

    group: Group
    process: subprocess.Popen[bytes]
    output: IO[bytes] | None
    started: float

    def finish(self) -> tuple[bool, Row]:
        """Waits for its end and shows what was kept. Whether it failed, and its row of the table."""
        code = self.process.wait()
        taken_s = time.monotonic() - self.started
        if self.output is not None:
            print(f"== {self.group.name}: {self.group.what}", flush=True)
            self.output.seek(0)
            shutil.copyfileobj(self.output, sys.stdout.buffer)
            sys.stdout.flush()
        verdict = "passed" if code == 0 else "no tests" if code == NO_TESTS_COLLECTED else "failed"
        return code != 0, (self.group.name, verdict, "beside the others" if self.output is not None else f"{taken_s:.0f} s")


def start(group: Group) -> Running:
    output = tempfile.TemporaryFile() if group.waits else None  # noqa: SIM115  because it is read when the group has ended
    if output is None:
        print(f"== {group.name}: {group.what}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-m", group.name]
    if not group.waits:
        command += WORKERS
    process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT if output else None)
    return Running(group, process, output, time.monotonic())


def run(names: list[str]) -> int:
    """Runs the named groups, or all. Returns 1 when a group failed, or was left out where none may be."""
    rows: list[Row] = []
    failed = False
    waiting: list[Running] = []
    chosen = [group for group in GROUPS if group.name in names or (not names and not group.by_hand)]
    try:
        for group in chosen:
            if missing := group.missing():
                rows.append((group.name, "left out", missing))
                failed |= os.environ.get("CI") == "true"
            elif group.waits:
                waiting.append(start(group))
            else:
                ended, row = start(group).finish()
                rows.append(row)
                failed |= ended
        for running in waiting:
            ended, row = running.finish()
            rows.append(row)
            failed |= ended
    finally:
        for running in waiting:
            if running.process.poll() is None:
                running.process.send_signal(signal.SIGINT)
                running.process.wait()
    rows += [(group.name, "by hand", group.what) for group in GROUPS if group.by_hand and not names]
    print("\ntest groups")
    for name, verdict, detail in rows:
        print(f"  {name:8} {verdict:9} {detail}")
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1:2] != ["run"]:
        sys.exit(f"usage: {sys.argv[0]} run [GROUP...]")
    sys.exit(run(sys.argv[2:]))
