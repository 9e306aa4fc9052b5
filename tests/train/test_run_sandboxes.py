"""Kills of a run's starts: whatever they had running is ended by a later start, however soon after each other they died."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from platoon.cli.main import platoon
from platoon.host.console import Console
from platoon.sandbox.base import SandboxLeft, SandboxSpec
from platoon.sandbox.labels import LIVE, start_guarded
from platoon.sandbox.process import ProcessProvider, layout
from platoon.sandbox.reaping import RECORDS_FILE
from platoon.train.sandboxes import run_sandboxes
from tests.sandbox.contract import running

pytestmark = pytest.mark.process

# A start of a run: says that it is past its reaping, starts a sandbox with a process in it where it is given a root, and lives on.
START = """
import asyncio, io, sys
from pathlib import Path
from platoon.host.console import Console
from platoon.sandbox.base import SandboxSpec
from platoon.sandbox.labels import start_guarded
from platoon.sandbox.process import ProcessProvider
from platoon.train.sandboxes import run_sandboxes

async def main():
    async with run_sandboxes(Path(sys.argv[1]), Console(io.StringIO())):
        for root in sys.argv[2:]:
            started = await start_guarded(ProcessProvider(root=root), SandboxSpec("local"))
            print((await started.sandbox.exec("sleep 300 >/dev/null 2>&1 & echo $!")).stdout, flush=True)
        print("open", flush=True)
        await asyncio.sleep(300)

asyncio.run(main())
"""


def killed_start(run_dir: Path, *roots: Path) -> list[int]:
    """A start that is killed as soon as it runs; the processes of its sandboxes."""
    run_dir.mkdir(exist_ok=True)
    command = [sys.executable, "-c", START, str(run_dir), *map(str, roots)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as start:
        assert start.stdout is not None
        pids = []
        while (line := start.stdout.readline().strip()) != "open":
            assert line or start.poll() is None
            pids += [int(line)] if line else []
        start.kill()
    return pids


def whole_start(run_dir: Path) -> str:
    """A start that ends well; what it told."""
    told = io.StringIO()

    async def main() -> None:
        async with run_sandboxes(run_dir, Console(told)):
            pass

    asyncio.run(main())
    return told.getvalue()


def nothing_left(run_dir: Path, *roots: Path) -> bool:
    return not list(run_dir.iterdir()) and not [entry for root in roots for entry in root.iterdir()]


def test_starts_killed_in_quick_succession_leave_nothing(tmp_path: Path) -> None:
    run_dir, roots = tmp_path / "run", [tmp_path / f"root{number}" for number in range(3)]
    for root in roots:
        [pid] = killed_start(run_dir, root)
        assert running(pid)
    assert "reaped 1 sandbox" in whole_start(run_dir)
    assert not running(pid) and nothing_left(run_dir, *roots)


def test_what_a_start_could_not_reap_is_handed_on_when_it_is_killed_too(tmp_path: Path) -> None:
    """The reaping of the second start fails, and it dies before it has anything of its own; so does the third."""
    run_dir, root, other = tmp_path / "run", tmp_path / "root", tmp_path / "other"
    [pid] = killed_start(run_dir, root)
    root.chmod(0o755)
    assert killed_start(run_dir) == []
    [second] = killed_start(run_dir, other)
    assert running(pid) and running(second)
    root.chmod(0o700)
    assert "reaped 2 sandboxes" in whole_start(run_dir)
    assert not running(pid) and not running(second) and nothing_left(run_dir, root, other)


def test_what_a_start_could_not_reap_at_its_end_stays_named(tmp_path: Path) -> None:
    run_dir, root = tmp_path / "run", tmp_path / "root"
    [pid] = killed_start(run_dir, root)
    root.chmod(0o755)
    told = whole_start(run_dir)
    assert f"warning: left behind: {root}" in told and f"platoon sandbox reap {run_dir}" in told
    [record] = json.loads((run_dir / RECORDS_FILE).read_text())
    assert record["options"] == {"root": str(root)} and running(pid)
    root.chmod(0o700)
    whole_start(run_dir)
    assert not running(pid) and nothing_left(run_dir, root)


def test_a_sandbox_half_made_at_a_kill_goes_though_the_next_start_came_too_soon(tmp_path: Path) -> None:
    run_dir, root = tmp_path / "run", tmp_path / "root"
    [pid] = killed_start(run_dir, root)
    # As a start leaves it that dies between making the directory and saying whose it is.
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    half = root / f"{layout.PREFIX}{gone.pid:06x}abcdef"
    half.mkdir(mode=0o700)
    killed_start(run_dir)
    os.utime(half, (0, 0))
    whole_start(run_dir)
    assert not running(pid) and nothing_left(run_dir, root)


def test_a_mirror_torn_by_a_kill_is_removed(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    killed_start(run_dir)
    (run_dir / f".{RECORDS_FILE}.0a1b2c3d").write_text('[{"prov')
    whole_start(run_dir)
    assert nothing_left(run_dir)


def test_a_sandbox_that_cannot_be_removed_is_named_with_the_reason_and_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run_dir, root, told = tmp_path / "run", tmp_path / "root", io.StringIO()
    run_dir.mkdir()
    removed = layout.remove_tree

    def held(path: Path) -> None:
        # What is not held goes first, the record among it.
        (path / "sandbox.json").unlink(missing_ok=True)
        raise OSError(errno.ENOTEMPTY, "not removed: rm: cannot remove 'x': Operation not permitted", str(path))

    async def main() -> None:
        async with run_sandboxes(run_dir, Console(told)):
            started = await start_guarded(ProcessProvider(root=root), SandboxSpec("local"))
            with pytest.raises(SandboxLeft, match="Operation not permitted"):
                await started.stop()

    monkeypatch.setattr(layout, "remove_tree", held)
    asyncio.run(main())
    [left] = root.iterdir()
    assert f"warning: left behind: {left} could not be removed: not removed: rm: cannot remove 'x': Operation" in told.getvalue()
    assert told.getvalue().splitlines()[-1] == f"once nothing holds what is left: platoon sandbox reap {run_dir}"
    assert all(record.exc_info is None for record in caplog.records)
    command = ["sandbox", "reap", str(run_dir)]
    result = CliRunner().invoke(platoon, command)
    assert isinstance(result.exception, SandboxLeft) and str(left) in str(result.exception)
    monkeypatch.setattr(layout, "remove_tree", removed)
    assert "1 sandbox " in CliRunner().invoke(platoon, command, catch_exceptions=False).output
    assert list(root.iterdir()) == []
    LIVE.forget()
