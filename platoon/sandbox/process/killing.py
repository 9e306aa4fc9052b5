"""Finding and killing the processes of a process sandbox.

A process belongs to a sandbox when its group was recorded as one of its commands, or when its environment holds the sandbox's
marker, `PLATOON_SANDBOX_ROOT=<root>`. What leaves its group and also clears its environment is not found: nothing isolates it.
Pids are never trusted alone: a group counts while its leader has the recorded start time, or while its leader is gone (the kernel
gives the number to nobody else as long as the group has members).
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARKER = "PLATOON_SANDBOX_ROOT"
MAX_LOOKS = 50
LOOK_PAUSE_S = 0.02
MAX_ENVIRON_BYTES = 4 * 1024 * 1024
MAX_ENVIRON_READS = 40
ENVIRON_PAUSE_S = 0.0005
MAX_LISTINGS = 20
KERNEL_THREAD = 0x00200000


@dataclass(frozen=True)
class ProcessRow:
    """One line of the process table; start_ticks as in `host.processes`."""

    pid: int
    parent: int
    group: int
    start_ticks: int

    @property
    def entry(self) -> str:
        """How `keep_processes` names it."""
        return f"{self.pid}:{self.start_ticks}"


def read_row(pid: int) -> ProcessRow | None:
    """A process that lives, None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in b"ZX":
        return None
    return ProcessRow(pid, int(fields[1]), int(fields[2]), int(fields[19]))


def own_pids(seen: Container[int] = ()) -> Iterator[int]:
    """Pids of this user's processes, without this one and those in `seen`."""
    user, me = os.getuid(), os.getpid()
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit() and (pid := int(entry.name)) != me and pid not in seen:
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == user:
                        yield pid


def process_table() -> dict[int, ProcessRow]:
    """Live processes of this user by pid."""
    rows = (read_row(pid) for pid in own_pids())
    return {row.pid: row for row in rows if row is not None}


def read_environ(pid: int) -> bytes:
    """The environment a process was started with; empty for one without any, that is gone, or that is not ours to read.

    While a process replaces its program it reads as empty too: then the kernel knows no end of it, and it is read again.
    """
    for _ in range(MAX_ENVIRON_READS):
        data = _read_environ_once(pid)
        if data is None:
            return b""
        if data or not _is_executing(pid):
            return data
        time.sleep(ENVIRON_PAUSE_S)
    return b""


def marked(*variables: str) -> list[ProcessRow]:
    """Processes of this user that carry each variable `NAME=value`.

    The list of processes is read again until it shows no new one: who forks and ends is found by its child.
    """
    wanted = {variable.encode() for variable in variables}
    seen: set[int] = set()
    found: list[ProcessRow] = []
    for _ in range(MAX_LISTINGS):
        new = list(own_pids(seen))
        if not new:
            break
        seen.update(new)
        for pid in new:
            environ = read_environ(pid)
            if all(variable in environ for variable in wanted) and wanted.issubset(environ.split(b"\0")):
                row = read_row(pid)
                if row is not None:
                    found.append(row)
    return found


def _read_environ_once(pid: int) -> bytes | None:
    """None for a process that is gone or may not be read, which no second try changes."""
    try:
        descriptor = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    data = bytearray()
    try:
        while len(data) < MAX_ENVIRON_BYTES and (chunk := os.read(descriptor, 65536)):
            data += chunk
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return bytes(data)


def _is_executing(pid: int) -> bool:
    """Whether an environment that read as empty may be one that is just being set up, and not one that has nothing in it.

    Fields 50 and 51 of the process's status say where the environment begins and ends: equal and not 0 when it is truly empty.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in b"ZX" or int(fields[6]) & KERNEL_THREAD:
        return False
    begin, end = int(fields[47]), int(fields[48])
    return end == 0 or begin != end


def group_has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def living_groups(groups: Mapping[int, int], table: Mapping[int, ProcessRow]) -> set[int]:
    """Recorded groups (id -> start time of the leader) that are still the recorded ones; never this process's own."""
    living = set()
    for row in table.values():
        start = groups.get(row.group)
        if start is None or row.group == os.getpgrp() or row.start_ticks < start:
            continue
        leader = table.get(row.group)
        if leader is None or leader.start_ticks == start:
            living.add(row.group)
    return living


def with_descendants(entries: Collection[str], table: Mapping[int, ProcessRow]) -> set[int]:
    """Pids of the live processes that `entries` (`pid:start`) name, and of everything below them."""
    kept = {row.pid for row in table.values() if row.entry in entries}
    grew = bool(kept)
    while grew:
        below = {row.pid for row in table.values() if row.parent in kept} - kept
        kept |= below
        grew = bool(below)
    return kept


class Killer:
    """Kills what belongs to one sandbox, looking again until a look finds nothing.

    variables: what every process to be killed carries, `NAME=value`. groups: recorded group -> start time of its leader.
    kept: `pid:start` entries that live on, with their descendants.
    """

    def __init__(self, variables: Sequence[str], groups: Mapping[int, int], kept: Collection[str] = ()) -> None:
        self._variables, self._groups, self._kept = variables, groups, kept

    def look(self) -> list[ProcessRow]:
        """One look: sends SIGKILL to what it finds and returns it."""
        found = {row.pid: row for row in marked(*self._variables)}
        if self._groups or self._kept:
            table = process_table()
            living = living_groups(self._groups, table)
            found.update((row.pid, row) for row in table.values() if row.group in living)
            for pid in with_descendants(self._kept, table):
                found.pop(pid, None)
            if not self._kept:
                for group in living:
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(group, signal.SIGKILL)
        for row in found.values():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(row.pid, signal.SIGKILL)
        return list(found.values())

    async def until_gone(self, timeout_s: float = MAX_LOOKS * LOOK_PAUSE_S) -> list[ProcessRow]:
        """Looks until one finds nothing, or `timeout_s` and `MAX_LOOKS` are used up; returns what the last look still found."""
        deadline = time.monotonic() + timeout_s
        looks = 0
        while found := self.look():
            looks += 1
            if looks >= MAX_LOOKS and time.monotonic() >= deadline:
                return found
            await asyncio.sleep(LOOK_PAUSE_S)
        return []
