"""Staging directories: gone with their block, and with their maker."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from platoon.host.staging import staging_dir

pytestmark = pytest.mark.unit


def test_gone_with_the_block_and_with_a_maker_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLATOON_NODE_SCRATCH", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    parent = tmp_path / f"staged-{os.getuid()}"
    with staging_dir("staged") as first:
        (first / "file").write_text("x")
        for name in (f"{ended.pid}.1.aa", f"{os.getpid()}.1.bb"):
            (parent / name / "deep").mkdir(parents=True)
        (parent / "mine").mkdir()
        (parent / f"{ended.pid}.².cc").mkdir()
        with staging_dir("staged") as second:
            assert {path.name for path in parent.iterdir()} == {first.name, second.name, "mine", f"{ended.pid}.².cc"}
    assert {path.name for path in parent.iterdir()} == {"mine", f"{ended.pid}.².cc"}
