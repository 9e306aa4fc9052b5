"""Processes under test: whose child is whose, what is gone, and waits that end."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

WAIT_S = 60.0


def wait_for(true: Callable[[], bool], limit_s: float = WAIT_S) -> None:
    """Until something is so. Fails past the limit."""
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, f"not so within {limit_s:g} s"
        time.sleep(0.01)


def until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Until something is so while a process lives. Fails with its output when it ended."""

    def true_or_over() -> bool:
        assert process.poll() is None, process.communicate()[0]
        return true()

    wait_for(true_or_over)


def children(pid: int) -> list[int]:
    """The live children of all threads of a process; none for a process that is gone."""
    tasks = Path(f"/proc/{pid}/task")
    try:
        return sorted({int(item) for task in tasks.iterdir() for item in (task / "children").read_text().split()})
    except OSError:
        return []


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)
