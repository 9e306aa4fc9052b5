"""What a person sees while a recipe trains: stage, step and what is waited for in one line of a terminal; plain lines elsewhere."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from platoon.host import status_line
from tests.processes import children
from tests.screens import shown
from tests.workflow.conftest import FIRST_OUTPUT, RECIPE, Clone

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

SPINNER = re.compile(f"[{status_line.SPINNER}]")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
# The promise: each change shows within this time.
SHOWN_WITHIN_S = 10.0
TARGET = "results/main/train.json"
COMMAND = (sys.executable, "-m", "snakemake", "--profile", "local", "--config", f"recipe={RECIPE}", "--", TARGET)


class Screen:
    """A command under a pseudo-terminal, and all it wrote there."""

    def __init__(self, clone: Clone) -> None:
        self._fd, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
        self.process = clone.start(*COMMAND, stream=theirs, TERM="xterm", COLUMNS="120")
        os.close(theirs)
        self.text = ""

    def read(self, for_s: float = 0.1) -> bool:
        """Takes in what is written within a time; False at the end."""
        if not select.select([self._fd], [], [], for_s)[0]:
            return True
        try:
            data = os.read(self._fd, 65536)
        except OSError:
            return False
        self.text += data.decode("utf-8", "replace")
        return bool(data)

    def shows(self, pattern: str, within_s: float, since: int = 0) -> bool:
        """Whether a text is shown in time; what was written before `since` does not count."""
        deadline = time.monotonic() + within_s
        while not re.search(pattern, CONTROL.sub("", self.text[since:])):
            if time.monotonic() > deadline or not self.read():
                return False
        return True

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._fd)


@contextmanager
def screen_of(clone: Clone) -> Iterator[Screen]:
    screen = Screen(clone)
    try:
        yield screen
    finally:
        screen.close()


def service_of(screen: Screen) -> int:
    """The embedded service below the trainer below Snakemake."""
    level, found = [screen.process.pid], []
    while level:
        level = [child for pid in level for child in children(pid)]
        found += [pid for pid in level if b"platoon.local" in command_of(pid)]
    return found[0]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_terminal_shows_stage_step_and_what_is_waited_for(clone: Clone) -> None:
    # Long enough that its first step is seen while it still trains, however late the screen is read.
    config = clone.root / "tests/recipes/tiny/rl.yaml"
    config.write_text(config.read_text().replace("max_training_steps: 2", "max_training_steps: 20"))
    with screen_of(clone) as screen:
        assert screen.shows("train warm", 60)
        assert screen.shows(r"starting: run warm \(waiting for the embedded service\)", SHOWN_WITHIN_S)
        assert screen.shows(r"training: step [0-9]+ of 12", 60)
        assert screen.shows("training: step [0-9]+ of 12, last loss [0-9.]+", 60)
        assert screen.shows("train main", 60)
        begun = len(screen.text)
        assert screen.shows(r"training: step [0-9]+ of 20", 60, begun)
        # A service that stands still: the line stays, and says on what the step waits.
        service = service_of(screen)
        os.kill(service, signal.SIGSTOP)
        stopped = len(screen.text)
        try:
            told = screen.shows(r"training: step [0-9]+ of 20.* \(waiting for [^)]+\)", SHOWN_WITHIN_S, stopped)
        finally:
            os.kill(service, signal.SIGCONT)
        assert told, screen.text[stopped:]
        assert screen.shows("run main: 20 steps done", 60, stopped)
        while screen.read(1.0):
            pass
        assert screen.process.wait(30) == 0
    assert "\x1b[" in screen.text, "a terminal gets a line that is drawn in place"
    assert "Traceback" not in screen.text
    rows = [row for row in shown(screen.text, 120) if row]
    left = rows[rows.index("Using shell: /usr/bin/bash") + 1 : -2]
    assert {"resolve main", "train warm", "train main"} <= set(left)
    assert not [row for row in left if SPINNER.search(row) or row.startswith(("Job ", "Reason", "Select", "Execute"))], left
    assert [row for row in left if left.count(row) > 1] == [], left


def test_elsewhere_it_writes_plain_lines(trained: Clone) -> None:
    text = (trained.root / FIRST_OUTPUT).read_text()
    assert "\x1b" not in text and "\r" not in text
    lines = text.splitlines()
    assert "starting: run main (waiting for the embedded service)" in lines
    assert any(re.fullmatch(r"[-0-9]{10} [:0-9]{8} train main", line) for line in lines)
    assert not [line for line in lines if line.startswith(("Job ", "Reason", "Select", "Execute", "Updating"))]
    assert [line for line in lines if line.startswith("run main: 2 steps done, checkpoint final; reward ")]
    assert len([line for line in lines if line.startswith("training")]) <= 4, "a step is no line of its own"
    log = (trained.root / "logs/train/main.log").read_text()
    assert "\x1b" not in log
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", line) for line in log.splitlines())
