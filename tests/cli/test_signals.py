"""INT and TERM while a command reads much: a line, the code of the signal, and nothing half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from platoon import exits
from tests.envs.harbor.fakes.repositories import Repository

pytestmark = pytest.mark.process

CONFIG = "environments: [{name: e, service: harbor, harness: platoon-bash, service_kwargs: {dataset: data, provider: process}}]\n"
# Nothing is stored of it, and reading it takes seconds; a task may hold as much.
LARGE_BYTES = 9 << 30
ENDS_S = 60.0
CODES = {signal.SIGINT: exits.INTERRUPTED, signal.SIGTERM: exits.TERMINATED}


def reads(process: subprocess.Popen[str], file: Path) -> bool:
    for link in Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            if link.readlink() == file:
                return True
        except FileNotFoundError:
            continue
    return False


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize(
    ("command", "large"),
    [
        ("harbor hash data/a", "data/a/tests/large"),
        ("harbor plan data/a", "data/a/tests/large"),
        ("harbor fetch c.yaml --repair", "data/a/tests/large"),
        ("harbor lock c.yaml --check", "data/a/tests/large"),
        ("harbor verify c.yaml", "cache/harbor/tasks/*/tests/large"),
        ("images owners image.tar --out owners.txt", "image.tar"),
    ],
)
def test_a_signal_ends_what_reads(tmp_path: Path, command: str, large: str, number: signal.Signals) -> None:
    Repository(tmp_path / "data").task("a", {"tests/large": "a little\n"})
    (tmp_path / "c.yaml").write_text(CONFIG)
    (tmp_path / "site.yaml").write_text("cache: cache\n")
    (tmp_path / "image.tar").touch()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PLATOON_SITE": "site.yaml"}
    argv = [sys.executable, "-m", "platoon"]
    subprocess.run(
        [*argv, "harbor", "fetch", "c.yaml"], check=True, cwd=tmp_path, env=environment, capture_output=True, timeout=ENDS_S
    )
    (file,) = tmp_path.glob(large)
    file.chmod(0o644)
    os.truncate(file, LARGE_BYTES)
    before = {path for path in tmp_path.rglob("*") if ".locks" not in path.parts}
    process = subprocess.Popen([*argv, *command.split()], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + ENDS_S
        while not reads(process, file):
            assert process.poll() is None and time.monotonic() < until, process.communicate()
            time.sleep(0.01)
        process.send_signal(number)
        told = process.communicate(timeout=ENDS_S)[1]
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, f"{number.name}: stopping" in told, "Traceback" in told) == (CODES[number], True, False), told
    assert {path for path in tmp_path.rglob("*") if ".locks" not in path.parts} == before
