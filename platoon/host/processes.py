"""Process identities that survive pid reuse, and children that die with their parent.

An identity is a pid and the start time the kernel gives it (field 22 of `/proc/<pid>/stat`, clock ticks since boot): together they
name one process of this boot.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class ProcessIdentity:
    """One process of one boot of one host."""

    host: str
    boot_id: str
    pid: int
    start_ticks: int

    def alive(self) -> bool | None:
        """True or False on its own host, None elsewhere (nothing can be said from here)."""
        if self.host != host_name():
            return None
        return self.boot_id == boot_id() and start_ticks(self.pid) == self.start_ticks

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> ProcessIdentity:
        """Raises KeyError, TypeError or ValueError for what `to_dict` did not write."""
        return cls(str(value["host"]), str(value["boot_id"]), int(value["pid"]), int(value["start_ticks"]))


def host_name() -> str:
    return socket.gethostname()


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """The start time of a live process, None when there is none or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name in parentheses may hold blanks and parentheses itself: fields are counted from the last one.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] == "Z" else int(fields[19])


def ticks_now() -> int:
    """The present in the unit of start times: a process started from here on has at least this."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def this_process() -> ProcessIdentity:
    """The identity of the calling process."""
    ticks = start_ticks(os.getpid())
    assert ticks is not None
    return ProcessIdentity(host_name(), boot_id(), os.getpid(), ticks)


def arm_parent_death(parent: int, death_signal: int = signal.SIGKILL) -> None:
    """Called in a child: it gets `death_signal` when the thread that started it ends, and ends now when `parent` is gone."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def die_with_parent(death_signal: int = signal.SIGKILL) -> Callable[[], None]:
    """A `preexec_fn`: the child gets `death_signal` when the thread that started it ends.

    Looked up before the fork, because loading a library is not safe after it; a parent that ended in between is noticed.
    """
    library = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def arm() -> None:
        library.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return arm
