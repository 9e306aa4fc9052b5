"""Names and text are UTF-8 on every machine: a locale that says otherwise would give one file two names, and a lock two digests."""

from __future__ import annotations

import os
import sys


def ensure_utf8() -> None:
    """Starts this program anew in Python's UTF-8 mode where the locale has another encoding; its children inherit the mode.

    Only at the entry of a program: nothing that happened in the process before stays, but its id.
    """
    if sys.getfilesystemencoding() == "utf-8":
        return
    os.environ["PYTHONUTF8"] = "1"
    # The option too, for an interpreter that was told to read no variables.
    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606
