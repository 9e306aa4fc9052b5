"""Short-lived directories in node scratch that do not outlive their makers, whatever ended them.

A staging directory is named for the process that made it, `<pid>.<start ticks>.<random>`. Whoever makes the next one removes those
of processes that are gone.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from platoon.host.processes import start_ticks
from platoon.host.scratch import private_dir
from platoon.host.trees import remove_tree


@contextmanager
def staging_dir(name: str) -> Iterator[Path]:
    """An empty directory below the private directory `name` of node scratch, removed at the end of the block."""
    parent = private_dir(name)
    sweep(parent)
    path = parent / f"{os.getpid()}.{start_ticks(os.getpid())}.{secrets.token_hex(6)}"
    path.mkdir(mode=0o700)
    try:
        yield path
    finally:
        remove_tree(path)


def sweep(parent: Path) -> None:
    """Removes the staging directories of processes that are gone; what has no such name is left alone."""
    for path in parent.iterdir():
        pid, _, rest = path.name.partition(".")
        ticks, _, random = rest.partition(".")
        is_ours = path.name.isascii() and pid.isdigit() and ticks.isdigit() and random != ""
        if is_ours and start_ticks(int(pid)) != int(ticks):
            with suppress(OSError):
                remove_tree(path)
