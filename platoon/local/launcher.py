"""Starting the local service as a child, holding it, and ending it on every path.

    with start_local_service(Path("runs/.tinker")) as service:
        client = tinker.ServiceClient(base_url=service.base_url, api_key=service.api_key)

The child is started and watched by one thread that lives as long as it does, since a parent-death signal follows the thread
that started the child: a parent that is killed takes its service along. Loads neither torch nor the SDK.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from platoon.artifacts.reading import open_regular
from platoon.errors import ConfigError, Problem, ServiceError
from platoon.host.waiting import finish

PARENT_VARIABLE = "PLATOON_LOCAL_PARENT"
FAULTS_VARIABLE = "PLATOON_LOCAL_FAULTS"
STOP_GRACE_S = 5.0
# What ends a held service. TERM and INT it ignores: a scheduler at its time limit and a terminal send those to every process of a
# job at once, and the trainer still has to save with it.
STOP_SIGNAL = signal.SIGRTMIN
LOG_TAIL_BYTES = 4096
LOG_TAIL_LINES = 15


@dataclass(frozen=True)
class LaunchSettings:
    """How to start a service.

    state_dir: checkpoints and tokenizers; servers may share it. log_path: where its output is appended; kept in memory when None.
    faults: opens the fault route; `fault_list` are faults from the start. ready_timeout_s: bound on its start.
    """

    state_dir: Path
    deterministic: bool = False
    threads: int = 1
    log_path: Path | None = None
    faults: bool = False
    fault_list: tuple[Mapping[str, Any], ...] = ()
    session_timeout_s: float = 900.0
    ready_timeout_s: float = 90.0


@dataclass(eq=False)
class LocalServiceProcess:
    """A service as a context manager, plain or asynchronous. `base_url`, `api_key` and `pid` hold once it is entered."""

    settings: LaunchSettings
    api_key: str = field(default_factory=lambda: f"tml-{secrets.token_hex(24)}", repr=False)
    base_url: str = ""
    pid: int = 0

    def __post_init__(self) -> None:
        self._log: int = -1
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._ready = threading.Event()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._on_end: list[Callable[[], None]] = []
        self._failure: str | None = None
        self._thread: threading.Thread | None = None

    def alive(self) -> bool:
        """Whether the service runs."""
        return self._ready.is_set() and not self._ended.is_set()

    @property
    def failure(self) -> str | None:
        """Why the service ended, with its last log lines; None while it runs or when it was stopped on purpose."""
        return self._failure

    def check(self) -> None:
        """Raises ServiceError when the service has ended."""
        if not self.alive():
            raise ServiceError(self._failure or "the local service is not running")

    async def died(self) -> str:
        """Waits until the service ends without having been asked to, and says why. Cancel it freely."""
        loop = asyncio.get_running_loop()
        event = asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # The loop may have ended first.
                loop.call_soon_threadsafe(event.set)

        with self._lock:
            self._on_end.append(wake)
        try:
            if not self._ended.is_set():
                await event.wait()
        finally:
            with self._lock:
                self._on_end.remove(wake)
        if self._failure is None:
            await asyncio.Event().wait()  # It was stopped on purpose: there is no death to tell.
        return self._failure or ""

    def start(self) -> Self:
        """Starts the child and waits until it listens. Raises ServiceError when it ends before or takes too long,
        ConfigError for a state directory that cannot be.
        """
        assert self._thread is None, "a service process starts once"
        check_state_dir(self.settings.state_dir)
        self._thread = threading.Thread(target=self._hold, name="local-service", daemon=True)
        self._thread.start()
        try:
            self._ready.wait()
        except BaseException:
            self.stop()
            raise
        if not self.base_url:
            self.stop()
            raise ServiceError(self._failure or "the local service did not start")
        return self

    def stop(self) -> None:
        """Ends the child if it runs; returns when it is gone. May be called again."""
        if self._thread is None or self._stop == -1:
            return
        self._ask_to_stop()
        self._thread.join()
        with self._lock:
            for descriptor in (self._stop, self._log):
                os.close(descriptor)
            self._stop = self._log = -1

    def _ask_to_stop(self) -> None:
        """The thread that holds the child ends it, also one that is not up yet."""
        with self._lock:
            if self._stop != -1:
                os.eventfd_write(self._stop, 1)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        started = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            return await asyncio.shield(started)
        except asyncio.CancelledError:
            self._ask_to_stop()
            await finish(self._stopped(started))
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await finish(asyncio.to_thread(self.stop))

    async def _stopped(self, starting: asyncio.Future[Self]) -> None:
        """Until nothing of a start that was given up is left."""
        with suppress(ConfigError, ServiceError):
            await starting
        await asyncio.to_thread(self.stop)

    # On the thread that holds the child

    def _hold(self) -> None:
        try:
            self._log = _open_log(self.settings.log_path)
            self._run()
        except Exception as error:
            self._failure = f"the local service could not be started: {error}"
        finally:
            self._ended.set()
            self._ready.set()
            with self._lock:
                wakers = list(self._on_end)
            for wake in wakers:
                wake()

    def _run(self) -> None:
        key_read, key_write = os.pipe2(os.O_CLOEXEC)
        ready_read, ready_write = os.pipe2(os.O_CLOEXEC)
        try:
            os.write(key_write, self.api_key.encode())
            child = subprocess.Popen(
                self._command(key_read, ready_write),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=self._environment(),
                pass_fds=(key_read, ready_write),
                start_new_session=True,
            )
        finally:
            for descriptor in (key_read, key_write, ready_write):
                os.close(descriptor)
        pidfd = os.pidfd_open(child.pid)
        self.pid = child.pid
        try:
            line = self._read_ready(ready_read, pidfd)
            if line:
                self.base_url = str(json.loads(line)["base_url"])
                self._ready.set()
                self._wait((pidfd, self._stop), None)
        finally:
            os.close(ready_read)
            asked = bool(self._wait((self._stop,), 0.0))
            self._end(child, pidfd)
            os.close(pidfd)
        if not asked and self._failure is None:
            self._failure = f"the local service (pid {child.pid}) ended: {_status(child.returncode)}{self._log_tail()}"

    def _read_ready(self, ready: int, pidfd: int) -> bytes:
        """The ready line; empty when the child ends, does not come up in time, or is not wanted any more."""
        deadline = time.monotonic() + self.settings.ready_timeout_s
        line = b""
        while not line.endswith(b"\n"):
            woken = self._wait((ready, pidfd, self._stop), deadline - time.monotonic())
            if not woken:
                self._failure = f"the local service was not ready after {self.settings.ready_timeout_s} s{self._log_tail()}"
            if ready not in woken or not (part := os.read(ready, 4096)):
                return b""
            line += part
        return line

    def _end(self, child: subprocess.Popen[bytes], pidfd: int) -> None:
        """The stop signal, a grace, KILL; the child is reaped."""
        if child.poll() is None:
            child.send_signal(STOP_SIGNAL)
            self._wait((pidfd,), STOP_GRACE_S)
        if child.poll() is None:
            child.kill()
        child.wait()

    @staticmethod
    def _wait(descriptors: tuple[int, ...], timeout_s: float | None) -> set[int]:
        """Those of the descriptors that became readable (a pidfd does when its process ends)."""
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        events = poll.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000)
        return {descriptor for descriptor, _ in events}

    def _command(self, key_read: int, ready_write: int) -> list[str]:
        settings = self.settings
        command = [sys.executable, "-m", "platoon.local", "--state", str(settings.state_dir.absolute())]
        command += ["--threads", str(settings.threads), "--session-timeout-s", str(settings.session_timeout_s)]
        command += ["--api-key-descriptor", str(key_read), "--ready-descriptor", str(ready_write)]
        command += ["--deterministic"] if settings.deterministic else []
        return command + (["--faults"] if settings.faults else [])

    def _environment(self) -> dict[str, str]:
        """The caller's, with thread counts set: torch's threads spin, and spinning on shared cores costs more than it gains."""
        threads = str(self.settings.threads)
        return {
            **os.environ,
            PARENT_VARIABLE: str(os.getpid()),
            FAULTS_VARIABLE: json.dumps([dict(fault) for fault in self.settings.fault_list]),
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONUNBUFFERED": "1",
        }

    def _log_tail(self) -> str:
        """The last lines of the log, on lines of their own."""
        size = os.fstat(self._log).st_size
        text = os.pread(self._log, LOG_TAIL_BYTES, max(0, size - LOG_TAIL_BYTES)).decode(errors="replace")
        lines = text.strip().splitlines()[-LOG_TAIL_LINES:]
        return "".join(f"\n  {line}" for line in lines)


def check_state_dir(path: Path) -> None:
    """Raises ConfigError for a directory that cannot hold a service's state."""
    if ":" in str(path.absolute()):
        # The SDK cuts a tokenizer's name at its first colon, and that name is a directory below this one.
        raise ConfigError(Problem("the local service's directory must have no ':' in its path", file=str(path.absolute())))


def start_local_service(state_dir: Path, **settings: Any) -> LocalServiceProcess:
    """A service over `state_dir`, started when the context is entered. Other keywords are those of `LaunchSettings`."""
    return LocalServiceProcess(LaunchSettings(state_dir, **settings))


def _open_log(path: Path | None) -> int:
    if path is None:
        return os.memfd_create("local-service-log", os.MFD_CLOEXEC)
    path.parent.mkdir(parents=True, exist_ok=True)
    return open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)


def _status(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"
