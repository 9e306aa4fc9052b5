from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.model

COMMAND = [sys.executable, "-m", "platoon", "local", "serve"]


def test_serve_prints_its_address_wants_its_key_and_ends_on_term(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("tml-secret\n")
    command = [*COMMAND, "--state", str(tmp_path / "state"), "--api-key-file", str(tmp_path / "key"), "--deterministic"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            ready = json.loads(server.stdout.readline())
            assert ready["pid"] == server.pid
            health = f"{ready['base_url']}/api/v1/healthz"
            assert httpx.get(health).status_code == 401
            assert httpx.get(health, headers={"X-API-Key": "tml-secret"}).json() == {"status": "ok"}
            assert httpx.post(f"{ready['base_url']}/local/faults", headers={"X-API-Key": "tml-secret"}).status_code == 404
        finally:
            os.kill(server.pid, signal.SIGTERM)
        assert server.wait(20) == 0


@pytest.mark.parametrize(
    ("options", "code", "rule"),
    [
        (["--state", "{tmp}/a:b"], 78, "no ':' in its path"),
        (["--threads", "2", "--deterministic"], 78, "--threads: deterministic sampling needs one thread"),
        (["--host", "0.0.0.0"], 78, "needs an API key"),
        (["--port", "99999"], 64, "--port"),
        (["--nonsense"], 64, "--nonsense"),
    ],
)
def test_what_cannot_be_served_is_refused(tmp_path: Path, options: list[str], code: int, rule: str) -> None:
    given = [option.replace("{tmp}", str(tmp_path)) for option in options]
    command = [*COMMAND, "--state", str(tmp_path / "state"), *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code and rule in done.stderr
    assert list(tmp_path.iterdir()) == []
