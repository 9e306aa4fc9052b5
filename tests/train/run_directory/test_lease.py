"""The lease: one live trainer a run directory; dead holders are taken over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from platoon.errors import ConfigError, HeldError
from platoon.host.processes import this_process
from platoon.train.run_directory import lease as module
from platoon.train.run_directory.lease import Lease, live_holder, refuse_held

pytestmark = pytest.mark.unit

HOLD = """
import sys, time
from pathlib import Path
from platoon.train.run_directory.lease import Lease
with Lease(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_live_trainer_is_refused_and_a_dead_one_taken_over(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(HeldError, match=f"process {holder.pid}"), Lease(tmp_path):
            pass
        holder.kill()
        holder.wait()
        with Lease(tmp_path):
            assert json.loads((tmp_path / "process.json").read_text())["pid"] == os.getpid()
            refuse_held(tmp_path)
        assert not (tmp_path / "process.json").exists()
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.parametrize(("age_s", "held"), [(5.0, True), (500.0, False)])
def test_a_holder_elsewhere_is_judged_by_its_renewals(age_s: float, held: bool, tmp_path: Path) -> None:
    value = {**this_process().to_dict(), "host": "another-node", "job_id": "17"}
    path = tmp_path / "process.json"
    path.write_text(json.dumps(value))
    os.utime(path, (time.time() - age_s, time.time() - age_s))
    holder = live_holder(tmp_path)
    assert (holder is not None) == held
    if held:
        with pytest.raises(HeldError, match="another-node, job 17"):
            refuse_held(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": "x"}', "\x00", "null"])
def test_a_file_that_says_nothing_is_refused_since_its_holder_may_live(text: str, tmp_path: Path) -> None:
    path = tmp_path / "process.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="does not say who trains this run"), Lease(tmp_path):
        pass
    assert path.read_text() == text
    path.unlink()
    with Lease(tmp_path):
        path.write_text(text)
    assert path.read_text() == text, "what is no longer ours is left alone"


def test_a_lease_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RENEW_EVERY_S", 0.01)
    with Lease(tmp_path):
        path = tmp_path / "process.json"
        os.utime(path, (1, 1))
        deadline = time.monotonic() + 10
        while path.stat().st_mtime < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert path.stat().st_mtime > 2
