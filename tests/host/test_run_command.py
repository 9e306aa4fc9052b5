"""Bounds of `host.run_command`: time, output, held pipes, cancellation."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from platoon.host.processes import start_ticks
from platoon.host.run_command import CommandResult, Whole, run_command
from tests.processes import wait_for

pytestmark = pytest.mark.process


def run(*argv: str, **options: object):
    return asyncio.run(run_command(argv, **options))  # type: ignore[arg-type]


def test_output_and_exit_code():
    result = run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"out\n", b"err\n")


def test_input_larger_than_a_pipe_is_written_while_output_is_read():
    data = os.urandom(1 << 20)
    assert run("cat", stdin=data).stdout == data


def test_input_nobody_reads_is_dropped():
    assert run("true", stdin=b"x" * (1 << 20)).exit_code == 0


def test_output_beyond_the_bound_is_counted_and_the_head_kept():
    result = run("sh", "-c", "printf head; head -c 5000 /dev/zero; echo err >&2", output_limit_bytes=100)
    assert result.stdout.startswith(b"head") and len(result.stdout) == 100
    assert result.dropped_bytes == result.stdout_dropped_bytes == 4904


def test_who_takes_the_output_ends_a_program_that_would_go_on(tmp_path: Path):
    output = Whole(1000, ValueError("too much"))
    with pytest.raises(ValueError, match="too much"):
        run("sh", "-c", f"echo $$ > {tmp_path}/pid; exec yes", take=output)
    assert output.data[:2] == b"y\n"
    assert start_ticks(int((tmp_path / "pid").read_text())) is None
    pieces: list[bytes] = []
    result = run("sh", "-c", "echo out; echo err >&2", take=pieces.append)
    assert (b"".join(pieces), result.stdout, result.stderr, result.dropped_bytes) == (b"out\n", b"", b"err\n", 0)


def test_background_process_that_holds_the_pipe_does_not_delay_the_result():
    began = time.monotonic()
    result = run("sh", "-c", "sleep 20 & echo $!")
    assert time.monotonic() - began < 15
    os.kill(int(result.stdout), 9)


def test_timeout_kills_the_group(tmp_path: Path):
    result = run("sh", "-c", f"sleep 50 & echo $! > {tmp_path}/pid; wait", timeout_s=0.3)
    assert result.timed_out and result.exit_code == -9
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        for _ in range(200):
            if Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z":
                raise ProcessLookupError
            os.kill(pid, 0)
            time.sleep(0.01)


def test_cancellation_returns_after_the_program_is_gone():
    async def main() -> int:
        pids: list[int] = []
        task = asyncio.create_task(run_command(["sleep", "50"], on_start=pids.append))
        for _ in range(1000):
            await asyncio.sleep(0.01)
            if pids:
                break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return pids[0]

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(main()), 0)


def test_a_start_that_is_cancelled_ends_what_the_program_started_too(tmp_path: Path):
    """Whoever of its children holds a pipe must not be waited for."""

    async def main() -> None:
        for delay_s in (0, 0.001, 0.002, 0.003, 0.004, 0.006, 0.01):
            command = ["sh", "-c", f"sleep 5000 & echo $! >> {tmp_path}/pids; wait"]
            task = asyncio.create_task(run_command(command))
            await asyncio.sleep(delay_s)
            task.cancel()
            done, _ = await asyncio.wait((task,), timeout=60)
            assert done and task.cancelled()

    asyncio.run(main())
    pids = (tmp_path / "pids").read_text().split() if (tmp_path / "pids").exists() else []
    wait_for(lambda: not any(start_ticks(int(pid)) for pid in pids))


def test_program_that_is_not_there():
    with pytest.raises(FileNotFoundError):
        run("no-such-program-at-all")


@pytest.mark.parametrize(
    ("exit_code", "told"),
    [
        (3, "exit code 3"),
        (-15, "SIGTERM"),
        (-25, "SIGXFSZ (a file would be larger than `ulimit -f` allows: raise that)"),
        (-250, "signal 250"),
    ],
)
def test_how_a_program_ended(exit_code: int, told: str) -> None:
    assert CommandResult(exit_code, b"", b"").ending == told
