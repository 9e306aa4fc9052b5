"""What lies in a process sandbox's directory, and how it is written and read.

    <root>/process-<12 hex>/     6 digits of the maker's pid, 6 at random
        fs/               what commands see
        sandbox.json      labels and the owner's identity
        process-groups    one line a command: `<group> <start time of its leader>`
        snapshots/<id>/   copies of fs/

The files serve a reaper after the owner's death; nothing is fsynced, since what they name does not survive a power cut either.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from platoon.artifacts.reading import parse_json, read_regular
from platoon.host.processes import ProcessIdentity, boot_id, host_name, start_ticks, this_process
from platoon.host.scratch import private_dir
from platoon.host.trees import REMOVAL_TIMEOUT_S, remove_tree
from platoon.sandbox.base import SandboxLeft

PREFIX = "process-"
MAX_RECORD_BYTES = 1 << 20
MAX_GROUPS_BYTES = 16 << 20
# How long a directory may be without a record: while its maker lives, and once no process has its maker's pid. The second is not 0,
# because another container's processes are not seen here.
UNRECORDED_GRACE_S = 600.0
MAKERLESS_GRACE_S = 1.0
PID_DIGITS = 6


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
        value = parse_json(read_regular(directory / "sandbox.json", MAX_RECORD_BYTES))
        owner = ProcessIdentity(
            str(value.get("host", host_name())),
            str(value.get("boot_id", boot_id())),
            int(value["owner_pid"]),
            int(value["owner_start_time"]),
        )
        return SandboxRecord({str(key): str(item) for key, item in value["labels"].items()}, owner)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def remove_sandbox(directory: Path, labels: Mapping[str, str]) -> None:
    """Removes a sandbox's directory. Raises SandboxLeft for one that stays; its record is there then, so that it is found again."""
    try:
        remove_tree(directory)
    except (OSError, subprocess.TimeoutExpired) as error:
        with suppress(OSError):
            write_record(directory, labels)
        reason = error.strerror if isinstance(error, OSError) else f"no end within {REMOVAL_TIMEOUT_S:g} s"
        raise SandboxLeft(f"{directory} could not be removed: {reason}") from error


def new_directory(root: Path) -> Path:
    """A new `process-<12 hex>` below `root`; its name tells who made it before any record does."""
    while True:
        directory = root / f"{PREFIX}{os.getpid():0{PID_DIGITS}x}{secrets.token_hex(3)}"
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
            return directory


def is_half_made(directory: Path) -> bool:
    """Without a record, and its maker was killed before it wrote one or after it removed it: no process of it is left."""
    try:
        age_s = time.time() - directory.stat().st_mtime
        maker = int(directory.name.removeprefix(PREFIX)[:PID_DIGITS], 16)
    except (OSError, ValueError):
        return False
    grace_s = MAKERLESS_GRACE_S if start_ticks(maker) is None else UNRECORDED_GRACE_S
    return age_s > grace_s and not (directory / "sandbox.json").exists()


def make_own(directory: Path, within: Sequence[str], labels: Mapping[str, str]) -> None:
    """Makes what a command at `/` needs where agents removed, replaced or closed it: the sandbox, its `fs/`, paths `within` that.

    A link or file in the way is removed and never followed; a directory is kept with what it holds. Raises OSError.
    """
    if _make_directory(directory):
        write_record(directory, labels)
    _make_directory(directory / "fs")
    for path in within:
        _make_directory(Path(f"{directory / 'fs'}{path}"))


def _make_directory(path: Path) -> bool:
    """A real directory that its owner can enter and fill; True where it was not there."""
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            if mode & stat.S_IRWXU != stat.S_IRWXU:
                path.chmod(stat.S_IMODE(mode) | stat.S_IRWXU)
            return False
        path.unlink()
    path.mkdir(mode=0o700)
    return True


def append_group(directory: Path, group: int, began_ticks: int) -> None:
    with (directory / "process-groups").open("a") as file:
        file.write(f"{group} {began_ticks}\n")


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
