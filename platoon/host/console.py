"""What a command tells a person while it works.

On a terminal one status line shows the stage and what is waited for, redrawn in place (`status_line`); elsewhere plain lines are
written: one at each change, one for the first wait that lasts, and otherwise one a minute. `--log-file` gets plain lines in every
case, the error that ended the command among them. Progress goes to standard error: standard output is for results. What cannot be
told (a full disk, a terminal that is gone) never ends the work.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from platoon.artifacts.reading import open_regular
from platoon.errors import PlatoonError
from platoon.host.status_line import StatusLine, told

QUIET_LINE_S = 60.0
FIRST_WAIT_S = 5.0


class Console:
    """Tells stages and progress; safe to call from any thread.

    stream: where a person looks, standard error by default; a status line is drawn only when it is a terminal.
    log_file: plain lines with times are appended there too. clock: seconds, monotonic.
    """

    def __init__(
        self, stream: IO[str] | None = None, log_file: Path | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._logs: list[IO[str]] = []
        self._clock = clock
        self._lock = threading.Lock()
        self._last_line_at = float("-inf")
        self._stage, self._stage_began_at = "", 0.0
        # Of the stage: where it is, and where it was when a line last told it; None before the first line.
        self._detail = ""
        self._told: str | None = None
        self._wait_told = False
        drawn = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._status = StatusLine(self._stream) if drawn else None
        if log_file is not None:
            self._logs.append(_open_log(log_file))

    @contextmanager
    def also_to(self, log_file: Path) -> Iterator[None]:
        """Plain lines go to this file too, as does the error that ends the block. Raises OSError when it cannot be opened."""
        log = _open_log(log_file)
        self._logs.append(log)
        try:
            yield
        except PlatoonError as error:
            _append(log, str(error))
            raise
        finally:
            with self._lock:
                if log in self._logs:
                    self._logs.remove(log)
            with suppress(OSError):
                log.close()

    def say(self, text: str) -> None:
        """One line that stays."""
        with self._lock:
            if self._told is not None:
                # What is said of a stage says more than where it is.
                self._told = self._detail
            self._write(text)

    def progress(self, stage: str, detail: str = "", waiting_for: str = "", *, patience_s: float = 0.0) -> None:
        """The stage, where it is, and what it waits for. A line where the stage changed or a minute went by,
        and where a stage that told no wait has had one for a few seconds. A stage that was told is told again as it ended.

        detail: parts joined by a comma and a blank, the most important first: a narrow terminal shows fewer.
        patience_s: how long the stage lasts before it is worth a line.
        """
        texts = told(stage, detail, waiting_for)
        with self._lock:
            now = self._clock()
            if self._status is not None:
                self._status.show(stage, texts)
            if stage != self._stage:
                self._tell_end()
                self._stage, self._stage_began_at, self._told = stage, now, None
            self._detail = detail
            quiet_s = FIRST_WAIT_S if waiting_for and not self._wait_told else QUIET_LINE_S
            due = now - self._stage_began_at >= patience_s if self._told is None else now - self._last_line_at >= quiet_s
            if due:
                self._told, self._last_line_at, self._wait_told = detail, now, bool(waiting_for)
                self._write(texts[0], screen=self._status is None)

    def close(self) -> None:
        """Ends the status line and the log files."""
        with self._lock:
            self._tell_end()
            if self._status is not None:
                self._status.hide()
            for log in self._logs:
                with suppress(OSError):
                    log.close()
            self._logs.clear()

    def __enter__(self) -> Console:
        return self

    def __exit__(self, error_type: object, error: object, traceback: object) -> None:
        if error is not None:
            self._told = None
        if isinstance(error, PlatoonError):
            for log in self._logs:
                _append(log, str(error))
        self.close()

    def _tell_end(self) -> None:
        """Where a stage that was told came to, unless a line said so."""
        if self._told is not None and self._detail and self._told != self._detail:
            self._told = self._detail
            self._write(told(self._stage, self._detail)[0], screen=self._status is None)

    def _write(self, text: str, screen: bool = True) -> None:
        if screen:
            if self._status is not None:
                self._status.write(text)
            else:
                with suppress(OSError):
                    print(text, file=self._stream, flush=True)
        for log in self._logs:
            _append(log, text)


def near(path: Path) -> Path:
    """A path as it is short to read: relative where it lies below the working directory."""
    place = Path.cwd()
    return path.relative_to(place) if path.is_relative_to(place) else path


def _open_log(path: Path) -> IO[str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_relative_to("/dev"):
        # Where a shell put a stream of this process.
        return path.open("a", encoding="utf-8")
    return os.fdopen(open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a", encoding="utf-8")


def _append(log: IO[str], text: str) -> None:
    with suppress(OSError):
        print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), text, file=log, flush=True)
