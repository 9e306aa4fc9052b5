from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from platoon.errors import ConfigError, ServiceError
from platoon.host.processes import start_ticks
from platoon.local.launcher import start_local_service

pytestmark = pytest.mark.model


def wait_until_gone(pid: int, timeout_s: float = 15.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if start_ticks(pid) is None:
            return True
        time.sleep(0.02)
    return False


def test_leaving_the_context_ends_the_service_also_by_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), start_local_service(tmp_path, log_path=tmp_path / "logs" / "service.log") as service:
        pid = service.pid
        assert service.alive() and service.base_url.startswith("http://127.0.0.1:")
        assert service.api_key.startswith("tml-") and service.api_key not in repr(service)
        assert service.api_key.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        assert service.api_key.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        raise KeyError
    assert start_ticks(pid) is None and not service.alive() and service.failure is None
    assert (tmp_path / "logs" / "service.log").stat().st_mode & 0o777 == 0o600


def test_a_service_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no ':' in its path"), start_local_service(tmp_path / "a:b"):
        pass
    with (
        pytest.raises(ServiceError, match=r"exit code 78(.|\n)*one thread"),
        start_local_service(tmp_path, deterministic=True, threads=2),
    ):
        pass


def test_a_start_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="not ready after"), start_local_service(tmp_path, ready_timeout_s=0.05):
        pass


def test_a_killed_service_is_noticed_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with start_local_service(tmp_path) as service:
            death = asyncio.ensure_future(service.died())
            await asyncio.sleep(0)
            os.kill(service.pid, signal.SIGKILL)
            assert "killed by SIGKILL" in await asyncio.wait_for(death, 10)
            assert "killed by SIGKILL" in await asyncio.wait_for(service.died(), 10)

    asyncio.run(scenario())


def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    async def scenario() -> int:
        service = start_local_service(tmp_path)
        starting = asyncio.ensure_future(service.__aenter__())
        while not service.pid:  # noqa: ASYNC110  because the launcher announces no half-started child
            await asyncio.sleep(0.01)
        starting.cancel()
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not service.base_url, "the whole start was waited for"
        return service.pid

    assert start_ticks(asyncio.run(scenario())) is None


PARENT = """
import os, sys, time
from pathlib import Path
from platoon.local.launcher import start_local_service
service = start_local_service(Path(sys.argv[1]))
service.start()
print(service.pid, flush=True)
time.sleep(60)
"""


def test_a_killed_parent_takes_its_service_along(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline())
        assert start_ticks(pid) is not None
        parent.kill()
        parent.wait()
    assert wait_until_gone(pid)


def test_the_launcher_and_the_package_load_neither_torch_nor_the_sdk() -> None:
    imports = "import sys, platoon.local, platoon.local.launcher, platoon.cli.local"
    code = f"{imports}; print({{'torch', 'tinker', 'numpy'}} & {{*sys.modules}})"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def test_signals_that_reach_a_whole_job_leave_a_held_service_to_its_parent(tmp_path: Path) -> None:
    """At a time limit Slurm signals every process of the job, and a terminal every one of its group: the trainer saves first."""
    with start_local_service(tmp_path) as service:
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(service.pid, number)
        with pytest.raises(TimeoutError):
            asyncio.run(asyncio.wait_for(service.died(), 0.5))
        service.check()
        pid = service.pid
    assert not Path(f"/proc/{pid}").exists() and service.failure is None
