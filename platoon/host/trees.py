"""Trees of files that somebody else filled: asked what is in them, removed whole, copied without following links."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Literal

from platoon.artifacts.reading import open_regular

REMOVAL_TIMEOUT_S = 600.0
# A file in the root of a cache, by the convention of bford.info/cachedir, which tools that copy or index directories know too.
CACHE_TAG = "CACHEDIR.TAG"


def is_file(path: Path) -> bool:
    """Whether a regular file is at a path, behind links too; not where that cannot be told."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def has_entries(path: Path) -> bool:
    """Whether a path is a directory that holds something; not where that cannot be told."""
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def kind_below(root: Path, path: Path) -> Literal["file", "directory", "outside"] | None:
    """What a path leads to: `outside` for a place not below `root`, a real path; None for nothing and for a special file."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return None
    if not Path(os.path.realpath(path)).is_relative_to(root):
        return "outside"
    return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else None


def remove_tree(path: Path) -> None:
    """Removes a file, link or directory with all below it; nothing there is fine.

    Links are removed, never followed. Raises OSError for what stays, `subprocess.TimeoutExpired` when it takes ten minutes.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        path.unlink()
        return
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):
        # Directories their maker closed, trees deeper than this interpreter's stack or a path name, files that came meanwhile.
        _remove_with_tools(path)


def _remove_with_tools(path: Path) -> None:
    for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
        result = subprocess.run([*command, "--", str(path)], capture_output=True, check=False, timeout=REMOVAL_TIMEOUT_S)
    if os.path.lexists(path):
        reason = result.stderr.decode("utf-8", "replace").strip()[-300:]
        raise OSError(errno.ENOTEMPTY, f"not removed: {reason}", str(path))


def copy_file(src: Path, dst: Path) -> None:
    """Copies a regular file with its mode. Raises OSError for what is none, without waiting for a FIFO's writer."""
    with os.fdopen(open_regular(src), "rb") as source:
        status = os.fstat(source.fileno())
        with suppress(FileNotFoundError):
            if dst.is_symlink():
                dst.unlink()
        with dst.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        dst.chmod(stat.S_IMODE(status.st_mode) & 0o777)


def copy_tree(src: Path, dst: Path, *, links: bool) -> None:
    """Copies what is below `src` into `dst`: directories, regular files and, where `links`, symlinks as links.

    Without `links` a symlink to a regular file is copied as that file and other links are left out. Devices, FIFOs and sockets are
    always left out. An existing file is replaced; a link in the way of a file is removed, not written through.
    """
    dst.mkdir(parents=True, exist_ok=True)
    with os.scandir(src) as entries:
        for entry in sorted(entries, key=lambda item: item.name):
            target = dst / entry.name
            if entry.is_symlink() and links:
                remove_tree(target)
                target.symlink_to(Path(entry.path).readlink())
            elif entry.is_dir(follow_symlinks=False):
                if target.is_symlink():
                    target.unlink()
                mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode) & 0o777
                copy_tree(Path(entry.path), target, links=links)
                target.chmod(mode | 0o700)
            elif entry.is_file(follow_symlinks=not links):
                copy_file(Path(entry.path), target)
