"""One line of a terminal, redrawn in place, among commands that share the terminal and know nothing of each other.

Each frame begins at the left edge and clears what it does not cover, so that whatever another program wrote is whole again within a
frame. Of several commands on one terminal one draws, the one that holds the lock of the terminal; the others write a plain line for
a stage that lasts, and once a minute.

Nothing is left to undo: no cursor is hidden, no mode is set, and a killed command leaves one stale line that the next text covers.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

FRAME_S = 0.125
CLEAR = "\r\x1b[K"
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_SPINNER = "|/-\\"
DEFAULT_COLUMNS = 80
# A command that does not draw tells a stage that has lasted so long, and again after so long.
PATIENCE_S = 2.0
QUIET_LINE_S = 60.0
ADDRESS = re.compile(r" at https?://[^\s,)]+")


class StatusLine:
    """Draws on `stream`, a terminal, from the first `show` to `hide`. Safe to call from any thread."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._stage = ""
        self._texts: Sequence[str] = ("",)
        self._tell_at = float("inf")
        self._frame = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._terminal = _Terminal(stream)
        utf8 = "utf" in (getattr(stream, "encoding", None) or "").lower()
        self._spinner, self._ellipsis = (SPINNER, "…") if utf8 else (PLAIN_SPINNER, "...")

    def show(self, stage: str, texts: Sequence[str]) -> None:
        """Draws the first of the texts that fits from now on, the last one cut where none does.

        stage: what a line is worth, should another command draw on this terminal.
        """
        with self._lock:
            if stage != self._stage:
                self._tell_at = time.monotonic() + PATIENCE_S
            self._stage, self._texts = stage, texts
            if self._thread is None:
                self._ended.clear()
                self._thread = threading.Thread(target=self._redraw, name="status line", daemon=True)
                self._thread.start()
                self._draw()

    def write(self, text: str) -> None:
        """A line that stays, above the status line."""
        with self._lock:
            self._put(f"{CLEAR}{text}\n")
            if self._thread is not None:
                self._draw()

    def hide(self) -> None:
        """Clears the line and lets another command draw. Idempotent."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._ended.set()
        if thread is not None:
            thread.join()
            if self._terminal.is_taken:
                self._put(CLEAR)
        self._terminal.give_back()

    def _redraw(self) -> None:
        while not self._ended.wait(FRAME_S):
            with self._lock:
                if self._thread is not None:
                    self._frame += 1
                    self._draw()

    def _draw(self) -> None:
        if not self._terminal.take():
            if time.monotonic() >= self._tell_at:
                self._tell_at = time.monotonic() + QUIET_LINE_S
                self._put(f"{CLEAR}{self._texts[0]}\n")
            return
        spinner = self._spinner[self._frame % len(self._spinner)]
        # The last column stays free: a terminal wraps there.
        shown = fitting(self._texts, self._terminal.columns() - 3, self._ellipsis)
        self._put(f"\r{spinner} {shown}\x1b[K")

    def _put(self, text: str) -> None:
        # A terminal that is gone ends no work.
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


class _Terminal:
    """The terminal behind a stream: its width, and the lock that says who draws. A stream of no device draws alone."""

    def __init__(self, stream: IO[str]) -> None:
        self._fd: int | None = None
        self._lock_fd: int | None = None
        with suppress(OSError, ValueError):
            self._fd = stream.fileno()

    @property
    def is_taken(self) -> bool:
        """Whether this command draws."""
        return self._fd is None or self._lock_fd is not None

    def columns(self) -> int:
        if self._fd is not None:
            with suppress(OSError):
                return os.get_terminal_size(self._fd).columns or DEFAULT_COLUMNS
        return DEFAULT_COLUMNS

    def take(self) -> bool:
        if self.is_taken:
            return True
        assert self._fd is not None
        try:
            # Opened anew: a lock belongs to an open file, and commands inherit theirs from one another.
            fd = os.open(os.ttyname(self._fd), os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return False
        self._lock_fd = fd
        return True

    def give_back(self) -> None:
        fd, self._lock_fd = self._lock_fd, None
        if fd is not None:
            os.close(fd)


def told(stage: str, detail: str = "", waiting_for: str = "") -> list[str]:
    """A stage, where it is and what it waits for: whole, without an address, without the wait, without the last parts of where."""
    parts = detail.split(", ") if detail else []
    places = [f"{stage}: {', '.join(parts[:count])}" for count in range(len(parts), 0, -1)] or [stage]
    waits = dict.fromkeys((waiting_for, ADDRESS.sub("", waiting_for))) if waiting_for else ()
    return [*(f"{places[0]} (waiting for {wait})" for wait in waits), *places]


def fitting(texts: Sequence[str], cells: int, ellipsis: str = "…") -> str:
    """The first of the texts that fits into so many cells of a terminal, else the last one cut; one printable line."""
    for text in texts:
        if (line := cut(text, cells, ellipsis)) == _printable(text):
            return line
    return line


def cut(text: str, cells: int, ellipsis: str = "…") -> str:
    """The text as one printable line of at most so many cells of a terminal."""
    line = _printable(text)
    if line.isascii():
        return line if len(line) <= cells else line[: max(0, cells - len(ellipsis))] + ellipsis
    from rich.cells import cell_len, set_cell_size

    return line if cell_len(line) <= cells else set_cell_size(line, max(0, cells - len(ellipsis))) + ellipsis


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
