"""INT and TERM where a command is not the whole process: in an import, in a thread, for a program that goes on after it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from platoon import exits

pytestmark = pytest.mark.process

# An INT that meets the reading of a command's module, as often in the `exec` of a dataclass.
INTERRUPTED = """
import os, signal, sys
sys.path.insert(0, {root!r})
from platoon.cli import main as cli

def interrupted(name):
    exec("os.kill(os.getpid(), signal.SIG{name})")

cli.importlib = type("", (), {{"import_module": staticmethod(interrupted)}})
"""
GOES_ON = """
before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
for _ in range(2):
    try:
        cli.main(["show", "gone"])
    except SystemExit as end:
        print(end.code, [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before)
"""
THREAD = """
import sys, threading
sys.path.insert(0, {root!r})
from platoon.cli.main import main

def run(*arguments):
    try:
        main(list(arguments))
    except SystemExit as end:
        print(end.code)

for arguments in (["show", "gone"], ["harbor", "fetch", "gone.yaml"]):
    thread = threading.Thread(target=run, args=arguments)
    thread.start()
    thread.join()
"""
ROOT = str(Path(__file__).resolve().parents[2])
CODES = {signal.SIGINT: exits.INTERRUPTED, signal.SIGTERM: exits.TERMINATED}


def ran(program: str, **values: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", program.format(root=ROOT, **values), "show"]
    return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("number", CODES)
def test_a_signal_in_an_import_ends_with_its_code(number: signal.Signals) -> None:
    run = ran(INTERRUPTED + "cli.main()", name=number.name.removeprefix("SIG"))
    assert (run.returncode, run.stderr.split("\n")[0]) == (CODES[number], f"{number.name}: stopping")
    assert run.stderr.strip() == f"{number.name}: stopping"


@pytest.mark.parametrize("number", CODES)
def test_a_caller_that_goes_on_has_its_handlers_back(number: signal.Signals) -> None:
    run = ran(INTERRUPTED + GOES_ON, name=number.name.removeprefix("SIG"))
    assert (run.returncode, run.stdout) == (exits.DONE, f"{CODES[number]} True\n" * 2), run.stderr


def test_a_thread_runs_commands() -> None:
    run = ran(THREAD)
    assert (run.returncode, run.stdout, "Traceback" in run.stderr) == (exits.DONE, f"{exits.CONFIG}\n" * 2, False), run.stderr
