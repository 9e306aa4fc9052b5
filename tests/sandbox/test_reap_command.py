"""`platoon sandbox reap`: ends what a dead run left and nothing of a live one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from platoon.cli.main import platoon
from platoon.errors import ConfigError
from tests.sandbox.contract import running

pytestmark = pytest.mark.process

OWNER = """
import asyncio, sys
from pathlib import Path
from platoon.sandbox.base import SandboxSpec
from platoon.sandbox.labels import run_labels, set_labels, start_guarded
from platoon.sandbox.process import ProcessProvider

async def main():
    set_labels(run_labels(Path(sys.argv[2])))
    started = await start_guarded(ProcessProvider(root=sys.argv[1]), SandboxSpec("local"))
    print((await started.sandbox.exec("sleep 300 >/dev/null 2>&1 & echo $!")).stdout, flush=True)
    await asyncio.sleep(300)

asyncio.run(main())
"""


def test_s537_reap_of_a_run(tmp_path: Path):
    root, run_dir = tmp_path / "root", tmp_path / "run"
    command = ["sandbox", "reap", str(run_dir), "--option", f"root={root}"]
    with subprocess.Popen([sys.executable, "-c", OWNER, str(root), str(run_dir)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert "0 sandboxes" in CliRunner().invoke(platoon, command).output
        assert running(pid)
        owner.kill()
        owner.wait()
    assert running(pid)
    assert "0 sandboxes" in CliRunner().invoke(platoon, ["sandbox", "reap", str(tmp_path / "other"), *command[3:]]).output
    assert "1 sandbox " in CliRunner().invoke(platoon, command).output
    assert not running(pid) and list(root.iterdir()) == []


def test_options_are_key_and_value(tmp_path: Path):
    assert CliRunner().invoke(platoon, ["sandbox", "reap", str(tmp_path), "--option", "root"]).exit_code == 2


def test_the_runs_own_records_say_where_to_look(tmp_path: Path):
    root, run_dir = tmp_path / "root", tmp_path / "run"
    run_dir.mkdir()
    owner = OWNER.replace("set_labels(", "LIVE.mirror_to(Path(sys.argv[2]) / 'sandboxes.json'); set_labels(", 1).replace(
        "import run_labels", "import LIVE, run_labels"
    )
    with subprocess.Popen([sys.executable, "-c", owner, str(root), str(run_dir)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
        process.wait()
    assert "1 sandbox " in CliRunner().invoke(platoon, ["sandbox", "reap", str(run_dir)]).output
    assert not running(pid)
    (run_dir / "sandboxes.json").write_text('[{"provider": "no.such:Thing", "options": {}}, 3, {"provider": 4}]')
    assert "0 sandboxes" in CliRunner().invoke(platoon, ["sandbox", "reap", str(run_dir)]).output
    (run_dir / "sandboxes.json").write_text("{torn")
    assert "0 sandboxes" in CliRunner().invoke(platoon, ["sandbox", "reap", str(run_dir)]).output


def test_an_unknown_run_is_an_error(tmp_path: Path):
    result = CliRunner().invoke(platoon, ["sandbox", "reap", str(tmp_path / "nope"), "--option", f"root={tmp_path / 'root'}"])
    assert isinstance(result.exception, ConfigError)
    assert "nope: no such run directory, and no sandbox bears its name" in str(result.exception)
    assert CliRunner().invoke(platoon, ["sandbox", "reap", str(tmp_path), "--option", f"root={tmp_path / 'root'}"]).exit_code == 0
