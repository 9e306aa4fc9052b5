"""Node-local scratch and directories of one's own in it.

Scratch is the first non-empty of `PLATOON_NODE_SCRATCH`, `PBS_LOCALDIR`, `SLURM_TMPDIR`, `TMPDIR`, else `/tmp`. A private directory
there is a real directory of this user without access for others; a link or somebody else's directory is refused before anything is
made in it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from platoon.errors import PlatoonError

VARIABLES = ("PLATOON_NODE_SCRATCH", "PBS_LOCALDIR", "SLURM_TMPDIR", "TMPDIR")


def node_scratch() -> Path:
    """The node's scratch directory."""
    for name in VARIABLES:
        if value := os.environ.get(name):
            return Path(value)
    return Path("/tmp")  # noqa: S108  because it is the last resort the table above documents


def private_dir(name: str, parent: Path | None = None) -> Path:
    """`<scratch>/<name>-<uid>`, made with mode 0700. Raises PlatoonError when it is not ours alone."""
    path = (parent or node_scratch()) / f"{name}-{os.getuid()}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    check_private(path)
    return path


def check_private(path: Path) -> None:
    """Raises PlatoonError unless `path` is a directory, no link, of this user, closed to group and others."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise PlatoonError(f"{path}: not a directory (remove it, or set PLATOON_NODE_SCRATCH to another place)")
    if status.st_uid != os.getuid():
        raise PlatoonError(f"{path}: belongs to uid {status.st_uid} (set PLATOON_NODE_SCRATCH to a place of your own)")
    if status.st_mode & 0o077:
        raise PlatoonError(f"{path}: open to others, mode {stat.S_IMODE(status.st_mode):04o} (chmod 700 it)")
