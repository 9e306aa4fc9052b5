"""Trees of files that somebody else filled: removed whole whatever their modes, copied without following links."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def remove_tree(path: Path) -> None:
    """Removes a file, link or directory with all below it; nothing there is fine.

    Links are removed, never followed. Directories that their maker closed are opened first. Raises OSError for what stays.
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
    except FileNotFoundError:
        remove_tree(path)
    except OSError:
        _open_directories(path)
        shutil.rmtree(path, onerror=_tolerate_gone)


def _tolerate_gone(function: Callable[..., Any], path: str, info: Any) -> None:
    if not isinstance(info[1], FileNotFoundError):
        raise info[1]


def _open_directories(top: Path) -> None:
    with suppress(OSError):
        top.chmod(0o700)
    for directory, names, _ in os.walk(top):
        for name in names:
            inner = Path(directory, name)
            with suppress(OSError):
                if not inner.is_symlink():
                    inner.chmod(0o700)


def copy_file(src: Path, dst: Path) -> None:
    """Copies a regular file with its mode. Raises OSError for what is none, without waiting for a FIFO's writer."""
    descriptor = os.open(src, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as source:
        status = os.fstat(source.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(src))
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
