"""What lies in a process sandbox's directory, and how it is written and read.

    <root>/process-<12 hex>/
        fs/               what commands see
        sandbox.json      labels and the owner's identity
        process-groups    one line a command: `<group> <start time of its leader>`
        snapshots/<id>/   copies of fs/

The files serve a reaper after the owner's death; nothing is fsynced, since what they name does not survive a power cut either.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from platoon.host.processes import ProcessIdentity, boot_id, host_name, this_process
from platoon.host.scratch import private_dir

PREFIX = "process-"
MAX_RECORD_BYTES = 1 << 20
MAX_GROUPS_BYTES = 16 << 20
UNRECORDED_GRACE_S = 600.0


@dataclass(frozen=True)
class SandboxRecord:
    """Whose a sandbox is: its labels, and the process that started it."""

    labels: Mapping[str, str]
    owner: ProcessIdentity

    def abandoned(self) -> bool:
        """The owner is gone, or is this process; a sandbox of another host is nobody's business here."""
        return self.owner.alive() is False or self.owner == this_process()


def default_root() -> Path:
    """`platoon-sandboxes-<uid>` in node scratch: a real directory of this user, closed to others, or a PlatoonError."""
    return private_dir("platoon-sandboxes").resolve()


def write_record(directory: Path, labels: Mapping[str, str]) -> None:
    owner = this_process()
    record = {
        "labels": dict(labels),
        "owner_pid": owner.pid,
        "owner_start_time": owner.start_ticks,
        "boot_id": owner.boot_id,
        "host": owner.host,
    }
    beside = directory / "sandbox.json.partial"
    beside.write_text(json.dumps(record))
    beside.rename(directory / "sandbox.json")


def read_record(directory: Path) -> SandboxRecord | None:
    """The record of a sandbox directory; None when it is not there or not readable (a start that did not get that far)."""
    try:
        with (directory / "sandbox.json").open("rb") as file:
            value = json.loads(file.read(MAX_RECORD_BYTES))
        owner = ProcessIdentity(
            str(value.get("host", host_name())),
            str(value.get("boot_id", boot_id())),
            int(value["owner_pid"]),
            int(value["owner_start_time"]),
        )
        return SandboxRecord({str(key): str(item) for key, item in value["labels"].items()}, owner)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def was_never_started(directory: Path) -> bool:
    """Without a record for longer than a start takes to write it: its maker was killed in between."""
    try:
        age_s = time.time() - directory.stat().st_mtime
    except OSError:
        return False
    return age_s > UNRECORDED_GRACE_S and not (directory / "sandbox.json").exists()


def append_group(directory: Path, group: int, start_ticks: int) -> None:
    with (directory / "process-groups").open("a") as file:
        file.write(f"{group} {start_ticks}\n")


def read_groups(directory: Path) -> dict[int, int]:
    """Recorded groups; a torn line is left out."""
    groups: dict[int, int] = {}
    with suppress(OSError), (directory / "process-groups").open("rb") as file:
        for line in file.read(MAX_GROUPS_BYTES).splitlines():
            with suppress(ValueError):
                group, start = line.split()
                groups[int(group)] = int(start)
    return groups


def sandbox_directories(root: Path) -> Iterator[Path]:
    """Directories of sandboxes below `root`, links left out."""
    with suppress(FileNotFoundError), os.scandir(root) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                yield Path(entry.path)
