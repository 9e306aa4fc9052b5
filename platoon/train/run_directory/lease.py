"""The lease on a run directory: at most one live trainer, over nodes and reboots.

`process.json` says who holds it: host, boot, pid, start time, job id. The holder renews the file's time; a holder on this host is
judged by its process, one elsewhere by the age of that renewal on the file system's own clock, so that clocks of nodes need not
agree. `process.lock` beside it is locked as long as the holder lives, which counts even where `process.json` was deleted; a file
system without locks has the lease alone. A lease of a dead holder is taken over. A holder whose lease was deleted or is another's
finds that out at its next renewal, and has to stop.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from platoon.artifacts.publish import WRITABLE, publish_json
from platoon.artifacts.reading import open_regular, parse_json, read_regular
from platoon.errors import ConfigError, HeldError, PlatoonError, Problem
from platoon.host.locks import file_lock
from platoon.host.processes import ProcessIdentity, this_process

FILE = "process.json"
LOCK = "process.lock"
RENEW_EVERY_S = 10.0
# A holder elsewhere that did not renew for this long is dead.
DEAD_AFTER_S = 120.0
# The lock is held for a run's life or for a look: only a look is worth waiting for.
TAKE_TIMEOUT_S = 2.0
LOOK_EVERY_S = 1.0
SIZE_LIMIT_BYTES = 1 << 16
NO_LOCKS = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK})


@dataclass(frozen=True)
class Holder:
    """Who a lease file names. age_s: since it was renewed last."""

    identity: ProcessIdentity
    job_id: str | None
    age_s: float

    def alive(self) -> bool:
        state = self.identity.alive()
        return self.age_s < DEAD_AFTER_S if state is None else state

    def __str__(self) -> str:
        job = f", job {self.job_id}" if self.job_id else ""
        return f"process {self.identity.pid} on {self.identity.host}{job}"


class LeaseLost(PlatoonError):
    """The run directory is no longer this process's. may_save: nobody else can have it yet."""

    def __init__(self, path: Path, holder: ProcessIdentity | None, *, may_save: bool) -> None:
        self.may_save = may_save
        became = f"names process {holder.pid} on {holder.host} now" if holder else "was deleted or changed"
        ended = "it saves what it has and ends" if may_save else "it ends without saving"
        super().__init__(f"{path}: {became}, so this process may not go on with the run: {ended}; the same command goes on")


def live_holder(run_dir: Path) -> Holder | None:
    """The live trainer of a run directory by its lease, None when there is none. Touches nothing unless the holder is elsewhere.

    Raises ConfigError for a lease that does not read.
    """
    path = run_dir / FILE
    try:
        named = _named(path)
        if named is None:
            return None
        identity, job_id = named
        holder = Holder(identity, job_id, 0.0 if identity.alive() is not None else _age_s(path))
    except (OSError, ValueError) as error:
        rule = f"it does not say who trains this run ({error.strerror if isinstance(error, OSError) else error})"
        advice = "make sure that no trainer of this run lives, then remove the file"
        raise ConfigError(Problem(rule, file=str(path), advice=advice)) from error
    return holder if holder.alive() else None


def refuse_held(run_dir: Path) -> None:
    """Raises HeldError when another live process trains in `run_dir`."""
    if not _refuse_named(run_dir) and _is_locked(run_dir / LOCK):
        raise HeldError(
            f"{run_dir}: {LOCK} is locked, so a process that {FILE} does not name trains this run: that file was deleted, or its "
            f"node is gone (wait for it, or stop it; once no trainer of this run lives on any node, delete {LOCK})"
        )


class Lease:
    """A held run directory. Use as a context manager; renewed by a thread while held.

    loss: how it ceased to be this process's, once that is known.
    """

    def __init__(self, run_dir: Path) -> None:
        self._path, self._lock_path = run_dir / FILE, run_dir / LOCK
        self._lock = ExitStack()
        self._lock_file = (0, 0)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.loss: LeaseLost | None = None

    def __enter__(self) -> Lease:
        """Raises HeldError when a live process holds it."""
        run_dir = self._path.parent
        run_dir.mkdir(parents=True, exist_ok=True)
        refuse_held(run_dir)
        with ExitStack() as lock:
            try:
                lock.enter_context(file_lock(self._lock_path, timeout_s=TAKE_TIMEOUT_S, what="the lease of the run directory"))
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
            # Who came in between, on a file system without locks.
            _refuse_named(run_dir)
            self._lock_file = _file_of(self._lock_path)
            publish_json(self._path, {**this_process().to_dict(), "job_id": os.environ.get("SLURM_JOB_ID")}, WRITABLE)
            os.utime(self._path)
            self._lock = lock.pop_all()
        self._thread = threading.Thread(target=self._renew, name="platoon-lease", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with suppress(OSError, LeaseLost):
            self.check()
            self._path.unlink()
        self._lock.close()

    def check(self) -> None:
        """Raises LeaseLost when the directory is no longer this process's, OSError when that cannot be told now."""
        try:
            named = _named(self._path)
        except ValueError:
            named = None
        holder = named[0] if named else None
        if holder == this_process():
            return
        may_save = holder is None and _file_of(self._lock_path) == self._lock_file
        self.loss = LeaseLost(self._path, holder, may_save=may_save)
        raise self.loss

    async def lost(self) -> LeaseLost:
        """Waits until the directory is no longer this process's, and says how. Cancel it freely."""
        while self.loss is None:  # noqa: ASYNC110  because a thread finds it out
            await asyncio.sleep(LOOK_EVERY_S)
        return self.loss

    def _renew(self) -> None:
        while not self._stop.wait(RENEW_EVERY_S):
            try:
                self.check()
                os.utime(self._path)
            except LeaseLost:
                return
            except OSError:
                # A file system that is away for a moment costs one renewal, not the run.
                continue


def _refuse_named(run_dir: Path) -> bool:
    """Whether the lease names a live process, which is this one; raises HeldError for another."""
    holder = live_holder(run_dir)
    if holder is not None and holder.identity != this_process():
        raise HeldError(f"{run_dir}: {holder} trains this run (wait for it, or stop it)")
    return holder is not None


def _named(path: Path) -> tuple[ProcessIdentity, str | None] | None:
    """Process and job that a lease names, None without a file. Raises OSError, and ValueError for a file that says nothing."""
    try:
        value = parse_json(read_regular(path, SIZE_LIMIT_BYTES))
        return ProcessIdentity.from_dict(value), value.get("job_id")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError("it must hold an object with host, boot_id, pid and start_ticks") from error


def _is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file; False where that cannot be told."""
    try:
        descriptor = open_regular(path)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(descriptor)
    return False


def _file_of(path: Path) -> tuple[int, int]:
    """What tells a file from another one of its name, zeros without a file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_dev, status.st_ino


def _age_s(path: Path) -> float:
    # The server's clock stamps both files.
    probe = path.with_name(f".{path.name}.{os.getpid()}.probe")
    try:
        probe.touch()
        return probe.stat().st_mtime - path.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)
