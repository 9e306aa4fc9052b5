"""The lease on a run directory: at most one live trainer, over nodes and reboots.

`process.json` says who holds it: host, boot, pid, start time, job id. The holder renews the file's time; a holder on this host is
judged by its process, one elsewhere by the age of that renewal on the file system's own clock, so that clocks of nodes need not
agree. A lease of a dead holder is taken over. A lock beside it serialises takers on file systems that have one.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platoon.artifacts.publish import WRITABLE, publish_json
from platoon.errors import ConfigError, HeldError, Problem
from platoon.host.locks import file_lock
from platoon.host.processes import ProcessIdentity, this_process

FILE = "process.json"
RENEW_EVERY_S = 10.0
# A holder elsewhere that did not renew for this long is dead.
DEAD_AFTER_S = 120.0
TAKE_TIMEOUT_S = 30.0


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


def live_holder(run_dir: Path) -> Holder | None:
    """The live trainer of a run directory, None when there is none. Touches nothing unless the holder is elsewhere.

    Raises ConfigError for a lease that does not read.
    """
    holder = _read(run_dir / FILE)
    return holder if holder is not None and holder.alive() else None


def refuse_held(run_dir: Path) -> None:
    """Raises HeldError when another live process trains in `run_dir`."""
    holder = live_holder(run_dir)
    if holder is not None and holder.identity != this_process():
        raise HeldError(f"{run_dir}: {holder} trains this run (wait for it, or stop it)")


class Lease:
    """A held run directory. Use as a context manager; renewed by a thread while held."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / FILE
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Lease:
        """Raises HeldError when a live process holds it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(self._path.with_suffix(".lock"), timeout_s=TAKE_TIMEOUT_S, what="the lease of the run directory"):
            refuse_held(self._path.parent)
            value = {**this_process().to_dict(), "job_id": os.environ.get("SLURM_JOB_ID")}
            publish_json(self._path, value, WRITABLE)
            os.utime(self._path)
        self._thread = threading.Thread(target=self._renew, name="platoon-lease", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._is_ours():
            self._path.unlink(missing_ok=True)

    def _is_ours(self) -> bool:
        try:
            holder = _read(self._path)
        except ConfigError:
            return False
        return holder is not None and holder.identity == this_process()

    def _renew(self) -> None:
        while not self._stop.wait(RENEW_EVERY_S):
            try:
                os.utime(self._path)
            except OSError:
                # A file system that is away for a moment costs one renewal, not the run.
                continue


def _read(path: Path) -> Holder | None:
    """Who holds the lease, None without a file. Raises ConfigError for a file that says nothing: its holder may live."""
    try:
        value: Any = json.loads(path.read_bytes())
        identity = ProcessIdentity.from_dict(value)
        age_s = 0.0 if identity.alive() is not None else _age_s(path)
        return Holder(identity, value.get("job_id"), age_s)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            Problem(
                f"it does not say who trains this run ({error})",
                file=str(path),
                advice="make sure that no trainer of this run lives, then remove the file",
            )
        ) from error


def _age_s(path: Path) -> float:
    # The server's clock stamps both files.
    probe = path.with_name(f".{path.name}.{os.getpid()}.probe")
    try:
        probe.touch()
        return probe.stat().st_mtime - path.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)
