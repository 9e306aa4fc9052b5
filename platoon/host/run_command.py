"""Runs one external program to its end, with bounds on time and output.

Each program leads a session of its own; on a timeout or a cancellation its whole process group is killed before the caller goes on.
Output beyond the bound is counted, not kept; who takes standard output as it comes ends the program by raising. A background child
that holds a pipe open does not delay the result beyond a second.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from platoon.host.processes import die_with_parent
from platoon.host.waiting import finish

OUTPUT_LIMIT_BYTES = 8 * 1024 * 1024
PIPE_GRACE_S = 1.0
TICK_S = 1.0
MEANINGS = {
    "SIGXFSZ": "a file would be larger than `ulimit -f` allows: raise that",
    "SIGXCPU": "it took more time than `ulimit -t` allows: raise that",
    "SIGKILL": "somebody ended it, or memory ran out",
}


@dataclass(frozen=True)
class CommandResult:
    """exit_code: negative for a signal, as in `subprocess`. stdout, stderr: what was kept of each. timed_out: it was killed.

    dropped_bytes: what both streams held beyond their bounds; stdout_dropped_bytes: the part of standard output.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    dropped_bytes: int = 0
    stdout_dropped_bytes: int = 0

    @property
    def ending(self) -> str:
        """How a program ended that said nothing: `exit code 1`, or `SIGKILL` with what that mostly means."""
        return f"exit code {self.exit_code}" if self.exit_code >= 0 else signal_told(-self.exit_code)


@dataclass(frozen=True)
class Whole:
    """A `take` that keeps all of an output, which ends with `fault` beyond `limit_bytes`."""

    limit_bytes: int
    fault: Exception
    data: bytearray = field(default_factory=bytearray)

    def __call__(self, piece: bytes) -> None:
        self.data.extend(piece)
        if len(self.data) > self.limit_bytes:
            raise self.fault


def signal_told(number: int) -> str:
    """A signal that ended a program, by its name and with what that mostly means."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    return f"{name} ({MEANINGS[name]})" if name in MEANINGS else name


async def run_command(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout_s: float | None = None,
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
    take: Callable[[bytes], None] | None = None,
    on_start: Callable[[int], None] | None = None,
    ends_with_parent: bool = False,
) -> CommandResult:
    """Runs `argv`. Raises OSError when it cannot start; a program that fails is a result, never an exception.

    take: is given standard output piece by piece, and the result holds none of it. What it raises is raised, after the program was
    killed.

    on_start is called with the pid, which is also the id of the new process group, before anything is awaited.
    ends_with_parent: the kernel kills the program when the thread that started it is gone, however it went.
    """
    loop = asyncio.get_running_loop()
    start = loop.subprocess_exec(
        lambda: _Command(loop, output_limit_bytes, take),
        *map(str, argv),
        cwd=cwd,
        env=env,
        stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        preexec_fn=die_with_parent() if ends_with_parent else None,
    )
    starting = asyncio.ensure_future(start)
    try:
        await finish(starting)
    except asyncio.CancelledError:
        # A start that is broken off ends the program alone, and then waits for whoever of its children holds the pipes.
        if starting.exception() is None:
            await _end(*starting.result())
        raise
    transport, protocol = starting.result()
    timed_out = False
    try:
        if on_start is not None:
            on_start(transport.get_pid())
        if stdin is not None:
            pipe = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
            pipe.write(stdin)
            pipe.close()
        timed_out = not await _done(protocol.exited, timeout_s)
    finally:
        await _end(transport, protocol)
    if protocol.failure is not None:
        raise protocol.failure
    exit_code = transport.get_returncode()
    assert exit_code is not None
    out, err = protocol.kept[1], protocol.kept[2]
    return CommandResult(exit_code, bytes(out.data), bytes(err.data), timed_out, out.dropped + err.dropped, out.dropped)


def run_blocking(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout_s: float | None = None,
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
    take: Callable[[bytes], None] | None = None,
    tick: Callable[[], None] | None = None,
) -> CommandResult:
    """`run_command` for code without an event loop. tick is called each second while the program runs, to tell that it does.

    The program ends when this process does, and with an interrupt; what it started in its session ends with it. Raises OSError when
    it cannot start.
    """
    started: list[int] = []

    async def run() -> CommandResult:
        command = run_command(
            argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            timeout_s=timeout_s,
            output_limit_bytes=output_limit_bytes,
            take=take,
            on_start=started.append,
            ends_with_parent=True,
        )
        running = asyncio.ensure_future(command)
        try:
            while tick is not None and not (await asyncio.wait((running,), timeout=TICK_S))[0]:
                tick()
            return await running
        finally:
            running.cancel()
            for group in started:
                kill_group(group)

    return asyncio.run(run())


def kill_group(group: int) -> None:
    """SIGKILL to a process group; a group that is gone is fine."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


async def _end(transport: asyncio.SubprocessTransport, protocol: _Command) -> None:
    """Kills the group of a program that runs still, and gives its pipes up."""
    if not protocol.exited.done():
        kill_group(transport.get_pid())
        await finish(protocol.exited)
    try:
        await _done(protocol.drained, PIPE_GRACE_S)
    finally:
        transport.close()


async def _done(future: asyncio.Future[None], timeout_s: float | None) -> bool:
    done, _ = await asyncio.wait((future,), timeout=timeout_s)
    return bool(done)


class _Kept:
    """The first bytes of a stream; the rest is counted so that the writer never blocks."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self.data = bytearray()
        self.dropped = 0

    def take(self, chunk: bytes) -> None:
        room = self._limit - len(self.data)
        self.data += chunk[:room]
        self.dropped += max(0, len(chunk) - room)


class _Command(asyncio.SubprocessProtocol):
    """exited: the program ended, whoever still holds its pipes. drained: both output pipes came to their end.

    failure: what `take` raised, after which it is given nothing more.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_bytes: int, take: Callable[[bytes], None] | None) -> None:
        self.exited: asyncio.Future[None] = loop.create_future()
        self.drained: asyncio.Future[None] = loop.create_future()
        self.kept = {1: _Kept(limit_bytes), 2: _Kept(limit_bytes)}
        self.failure: Exception | None = None
        self._takers = {1: take or self.kept[1].take, 2: self.kept[2].take}
        self._open = {1, 2}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self.failure is not None:
            return
        try:
            self._takers[fd](data)
        except Exception as error:
            self.failure = error
            if not self.exited.done():
                kill_group(self._transport.get_pid())

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open and not self.drained.done():
            self.drained.set_result(None)

    def process_exited(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)
