"""Names and text are UTF-8 on every machine: a locale that says otherwise would give one file two names, and a lock two digests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from platoon.errors import ConfigError, Problem


def ensure_utf8() -> None:
    """Starts this program anew in Python's UTF-8 mode where the locale has another encoding; its children inherit the mode.

    Only at the entry of a program: nothing that happened in the process before stays, but its id. Raises ConfigError where the
    program came from a pipe, or was typed in: it cannot be read again.
    """
    encoding = sys.getfilesystemencoding()
    if encoding == "utf-8":
        return
    if not _can_start_again(sys.argv[0]):
        rule = f"names of files are {encoding} here, and a program that Python reads from a pipe cannot be started again as UTF-8"
        raise ConfigError(Problem(rule, advice="set PYTHONUTF8=1"))
    os.environ["PYTHONUTF8"] = "1"
    # The option too, for an interpreter that was told to read no variables.
    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606


def _can_start_again(program: str) -> bool:
    """Whether Python finds a program once more: one of a module or the command line (`-c`), a file, or a directory with one."""
    return program == "-c" or (program not in ("", "-") and (Path(program).is_file() or Path(program).is_dir()))
