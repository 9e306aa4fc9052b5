"""Runs one external program to its end, with bounds on time and output.

Each program leads a session of its own; on a timeout or a cancellation its whole process group is killed before the caller goes on.
Output beyond the bound is counted, not kept. A background child that holds a pipe open does not delay the result.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

OUTPUT_LIMIT_BYTES = 8 * 1024 * 1024
PIPE_GRACE_S = 1.0


@dataclass(frozen=True)
class CommandResult:
    """exit_code: negative for a signal, as in `subprocess`. stdout, stderr: what was kept of each. timed_out: it was killed."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    dropped_bytes: int = 0


async def run_command(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout_s: float | None = None,
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
) -> CommandResult:
    """Runs `argv`. Raises OSError when it cannot start; a program that fails is a result, never an exception."""
    process = await asyncio.create_subprocess_exec(
        *map(str, argv),
        cwd=cwd,
        env=env,
        stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    streams = [_Kept(process.stdout, output_limit_bytes), _Kept(process.stderr, output_limit_bytes)]
    readers = [asyncio.create_task(stream.read()) for stream in streams]
    timed_out = False
    try:
        if stdin is not None and process.stdin is not None:
            with suppress(BrokenPipeError, ConnectionResetError):
                process.stdin.write(stdin)
                await asyncio.wait_for(process.stdin.drain(), timeout_s)
            process.stdin.close()
        await asyncio.wait_for(process.wait(), timeout_s)
    except TimeoutError:
        timed_out = True
    finally:
        if process.returncode is None or timed_out:
            kill_group(process.pid)
            await asyncio.shield(process.wait())
        await asyncio.wait(readers, timeout=PIPE_GRACE_S)
        for reader in readers:
            reader.cancel()
    assert process.returncode is not None
    out, err = streams
    return CommandResult(process.returncode, bytes(out.kept), bytes(err.kept), timed_out, out.dropped + err.dropped)


def kill_group(group: int) -> None:
    """SIGKILL to a process group; a group that is gone is fine."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


class _Kept:
    """The first bytes of a stream; the rest is read and counted so that the writer never blocks."""

    def __init__(self, stream: asyncio.StreamReader | None, limit_bytes: int) -> None:
        assert stream is not None
        self._stream, self._limit = stream, limit_bytes
        self.kept = bytearray()
        self.dropped = 0

    async def read(self) -> None:
        while chunk := await self._stream.read(65536):
            room = self._limit - len(self.kept)
            self.kept += chunk[:room]
            self.dropped += max(0, len(chunk) - room)
