"""The parent of a sandbox's command: a shell of a few kilobytes that waits for it.

A command that kills its parent (`kill -9 $PPID`, as a stray line of a test may) must meet something that is not the trainer.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

# What the shell itself has to tell ("Killed") is no output of the command; `exec` takes no builtin for a program.
SCRIPT = 'exec 3>&2 2>/dev/null; (exec "$@" 2>&3 3>&-); exit $?'
_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def supervised(argv: Sequence[str], environment: Mapping[str, str], directory: Path) -> list[str]:
    """`argv` below its parent, to be started in `directory`. What is negative of its exit codes is the parent's: it tells a command
    that a signal ended as 128 and the signal. Raises OSError for a program that is not there or cannot be executed.
    """
    _check(argv[0], environment, directory)
    # Of other names a shell makes no variables, and passes none on.
    unusual = [f"{name}={value}" for name, value in environment.items() if not _SHELL_NAME.fullmatch(name)]
    return ["/bin/sh", "-c", SCRIPT, "sh", *(["env", *unusual] if unusual else []), *argv]


def _check(name: str, environment: Mapping[str, str], directory: Path) -> None:
    """What a shell would only print."""
    if "/" not in name:
        places = [str(directory / place) for place in environment.get("PATH", os.defpath).split(os.pathsep)]
        if shutil.which(name, path=os.pathsep.join(places)) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return
    path = directory / name
    # Raises for one that is not there.
    path.stat()
    if path.is_dir() or not os.access(path, os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
