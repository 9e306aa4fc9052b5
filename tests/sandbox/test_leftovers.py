"""The fixture that looks for leftovers finds each kind."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.leftovers import Present, look

pytestmark = pytest.mark.process


def test_each_kind_is_found(tmp_path: Path):
    scratch = tmp_path / "scratch"
    private = scratch / f"platoon-sandboxes-{os.getuid()}"
    private.mkdir(parents=True)
    before = look(scratch, tmp_path)
    assert not any(item.startswith("scratch") for item in before.beyond(Present()))
    (private / "process-0123").mkdir()
    (scratch / "file").touch()
    environment = {**os.environ, "PLATOON_SANDBOX_ROOT": f"{tmp_path}/x/fs"}
    orphan = subprocess.run(
        ["sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!"], env=environment, capture_output=True, text=True, check=True
    )
    with (
        subprocess.Popen(["sleep", "300"]) as child,
        socket.create_server(("127.0.0.1", 0)),
        socket.socket(socket.AF_UNIX) as local,
    ):
        local.bind(str(tmp_path / "socket"))
        local.listen()
        try:
            left = look(scratch, tmp_path).beyond(before)
        finally:
            child.kill()
            os.kill(int(orphan.stdout), 9)
    kinds = [item.partition(":")[0] for item in left]
    assert sorted(kinds) == ["processes", "processes", "scratch", "scratch", "sockets", "sockets"], left
