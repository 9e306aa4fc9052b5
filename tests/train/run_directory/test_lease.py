"""The lease: one live trainer a run directory; dead holders are taken over."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from platoon.artifacts.publish import publish_bytes
from platoon.errors import ConfigError, HeldError
from platoon.host.processes import start_ticks, this_process
from platoon.train.run_directory import lease as module
from platoon.train.run_directory.lease import Lease, LeaseLost, live_holder, refuse_held

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


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"pid": "x"}', "\x00", "null", "17", '{"host": 1, "boot_id": 2, "pid": [], "start_ticks": 3}']
)
def test_a_file_that_says_nothing_is_refused_since_its_holder_may_live(text: str, tmp_path: Path) -> None:
    path = tmp_path / "process.json"
    path.write_text(text)
    rule = r"does not say who trains this run \(it must hold an object with host, boot_id, pid and start_ticks\)"
    with pytest.raises(ConfigError, match=rule), Lease(tmp_path):
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


def test_a_live_trainer_keeps_its_directory_when_its_lease_is_deleted(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        (tmp_path / "process.json").unlink()
        for attempt in (lambda: refuse_held(tmp_path), Lease(tmp_path).__enter__):
            with pytest.raises(HeldError, match=r"process\.lock is locked.*wait for it, or stop it.*delete process\.lock"):
                attempt()
        assert not (tmp_path / "process.json").exists()
        holder.kill()
        holder.wait()
        with Lease(tmp_path):
            pass
    finally:
        holder.kill()
        holder.communicate()


def taken(directory: Path, text: str) -> None:
    # At once, as another holder would: the renewal may look at any moment.
    publish_bytes(directory / "process.json", text.encode())


ANOTHER = json.dumps({**this_process().to_dict(), "pid": 1})
# Name of a change -> what is done, whether the holder may still save.
LOSSES: dict[str, tuple[Callable[[Path], object], bool]] = {
    "deleted": (lambda directory: (directory / "process.json").unlink(), True),
    "emptied": (lambda directory: taken(directory, ""), True),
    "taken": (lambda directory: taken(directory, ANOTHER), False),
    "both_deleted": (lambda directory: [(directory / name).unlink() for name in ("process.lock", "process.json")], False),
    "moved": (lambda directory: directory.rename(directory.with_name("elsewhere")), False),
    "replaced": (lambda directory: [directory.rename(directory.with_name("elsewhere")), directory.mkdir()], False),
}


@pytest.mark.parametrize("change", LOSSES)
def test_a_holder_finds_out_that_its_directory_is_no_longer_its_own(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RENEW_EVERY_S", 0.01)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.01)
    make, may_save = LOSSES[change]
    directory = tmp_path / "run"
    with Lease(directory) as lease:
        lease.check()
        make(directory)
        lost = asyncio.run(asyncio.wait_for(lease.lost(), 10))
        assert lost.may_save == may_save and str(directory / "process.json") in str(lost) and lost.exit_code == 1
        assert ("names process 1 on" in str(lost)) == (change == "taken")
        with pytest.raises(LeaseLost):
            lease.check()
    left = directory / "process.json"
    assert (left.read_text() == ANOTHER) if change == "taken" else (not left.exists() or left.read_text() == "")


def test_a_deleted_lease_that_another_took_is_saved_under_no_more(tmp_path: Path) -> None:
    with Lease(tmp_path) as lease:
        (tmp_path / "process.json").unlink()
        with pytest.raises(LeaseLost, match="it saves what it has and ends"):
            lease.check()
        taken(tmp_path, ANOTHER)
        with pytest.raises(LeaseLost, match="it ends without saving"):
            lease.check()
        assert lease.loss is not None and not lease.loss.may_save


def test_a_file_system_without_locks_has_the_lease_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with Lease(tmp_path) as lease:
        lease.check()
        taken(tmp_path, json.dumps({**this_process().to_dict(), "pid": 1, "start_ticks": start_ticks(1)}))
        with pytest.raises(HeldError, match="process 1 "):
            Lease(tmp_path).__enter__()
