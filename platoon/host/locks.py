"""Advisory file locks that end with their holder (`flock`): waiting is bounded and says for what."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from platoon.artifacts.reading import open_regular
from platoon.errors import HeldError

POLL_S = 0.05


@contextmanager
def file_lock(path: Path, *, timeout_s: float, what: str, waiting: Callable[[], None] | None = None) -> Iterator[int]:
    """Holds an exclusive lock on `path` (made when missing). Gives its descriptor.

    waiting: called again and again while another process holds it. Raises HeldError after `timeout_s` seconds, naming `what`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise HeldError(f"{path}: {what} is held by another process; try again when it is done") from None
                if waiting is not None:
                    waiting()
                time.sleep(POLL_S)
        yield descriptor
    finally:
        os.close(descriptor)
