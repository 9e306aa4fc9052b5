"""One line of a terminal that several commands share: who draws, what stays, what is left."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from platoon.host.console import Console
from platoon.host.status_line import StatusLine, cut, fitting, told
from tests.processes import wait_for
from tests.screens import shown

pytestmark = pytest.mark.unit


class Terminal:
    """A pseudo-terminal; `open` gives streams on it, as commands that were started there have."""

    def __init__(self, columns: int = 40) -> None:
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.set_blocking(self.ours, False)
        self.text = ""

    @contextmanager
    def open(self, encoding: str = "utf-8") -> Iterator[IO[str]]:
        with os.fdopen(os.dup(self.theirs), "w", encoding=encoding, errors="backslashreplace") as stream:
            yield stream

    def rows(self) -> list[str]:
        try:
            while data := os.read(self.ours, 65536):
                self.text += data.decode("utf-8", "replace")
        except BlockingIOError:
            pass
        return [row for row in shown(self.text, 40) if row]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    made = Terminal()
    yield made
    os.close(made.ours)
    os.close(made.theirs)


def test_the_line_is_whole_again_after_others_wrote_into_it_and_gone_at_the_end(terminal: Terminal) -> None:
    with terminal.open() as stream, terminal.open() as other, Console(stream) as console:
        console.progress("training", "step 1")
        wait_for(lambda: terminal.rows()[-1:] and terminal.rows()[-1].endswith("training: step 1"))
        other.write("some other program")
        other.flush()
        wait_for(lambda: terminal.rows()[-1].endswith("training: step 1") and "other" not in terminal.rows()[-1])
        console.say("saved")
        wait_for(lambda: terminal.rows()[:1] == ["saved"])
        console.close()
        assert terminal.rows() == ["saved"]


def test_one_command_draws_and_the_others_write_stages_that_last_until_it_ends(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with terminal.open() as one, terminal.open() as two, Console(two) as second:
        with Console(one) as first:
            first.progress("training", "a")
            second.progress("reading", "short")
            monkeypatch.setattr("platoon.host.status_line.PATIENCE_S", 0.0)
            second.progress("locking", "b")
            wait_for(lambda: "locking: b" in terminal.rows())
            second.progress("locking", "c")
            second.progress("planning", "d")
            wait_for(lambda: "planning: d" in terminal.rows())
            wait_for(lambda: terminal.rows()[-1].endswith("training: a"))
        second.progress("mapping", "e")
        wait_for(lambda: terminal.rows()[-1].endswith("mapping: e"))
    assert terminal.rows() == ["locking: b", "planning: d"]


def test_a_long_line_is_one_row_and_a_plain_terminal_gets_plain_signs(terminal: Terminal) -> None:
    with terminal.open("ascii") as stream:
        line = StatusLine(stream)
        line.show("x", ["x" * 200])
        rows = terminal.rows()
        line.hide()
    assert rows == ["| " + "x" * 34 + "..."]


def test_a_terminal_that_draws_nothing_gets_lines(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with terminal.open() as stream, Console(stream) as console:
        console.progress("training", "step 1")
    assert "\x1b" not in terminal.text and terminal.rows() == ["training: step 1"]


@pytest.mark.parametrize(
    ("text", "cells", "line"),
    [
        ("step 1", 6, "step 1"),
        ("step 12", 6, "step …"),
        ("a\nb\x1b[2Jc", 20, "a b [2Jc"),
        ("日本語", 6, "日本語"),
        ("日本語日", 7, "日本語…"),
        ("日本語日", 6, "日本 …"),
        ("x", 0, "…"),
    ],
)
def test_text_is_cut_to_cells(text: str, cells: int, line: str) -> None:
    assert cut(text, cells) == line


STEP = ("training", "step 123 of 300, last reward 0.412, 5 of 8 groups", "an update of policy 'main' at http://127.0.0.1:40217")


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (150, f"training: {STEP[1]} (waiting for {STEP[2]})"),
        (120, f"training: {STEP[1]} (waiting for an update of policy 'main')"),
        (80, f"training: {STEP[1]}"),
        (60, "training: step 123 of 300, last reward 0.412"),
        (40, "training: step 123 of 300"),
        (20, "training: step 1…"),
    ],
)
def test_a_narrow_terminal_leaves_the_least_important_out(columns: int, line: str) -> None:
    assert fitting(told(*STEP), columns - 3) == line


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        (("saving",), ["saving"]),
        (("saving", "", "the disk"), ["saving (waiting for the disk)", "saving"]),
        (("a", "b, c"), ["a: b, c", "a: b"]),
        (("a", "b", "d"), ["a: b (waiting for d)", "a: b"]),
        (
            ("a", "b, c", "d at https://e, again"),
            [f"a: b, c (waiting for d{at}, again)" for at in (" at https://e", "")] + ["a: b, c", "a: b"],
        ),
    ],
)
def test_texts_from_whole_to_least(parts: tuple[str, ...], texts: list[str]) -> None:
    assert told(*parts) == texts


def test_a_terminal_of_forty_columns_is_drawn_on_in_one_row(terminal: Terminal) -> None:
    with terminal.open() as stream, Console(stream) as console:
        console.progress(*STEP)
        wait_for(lambda: terminal.rows()[-1:] and terminal.rows()[-1].endswith(" training: step 123 of 300"))
        assert len(terminal.rows()) == 1


def test_a_stream_that_is_no_device_is_drawn_on_alone() -> None:
    stream = io.StringIO()
    line = StatusLine(stream)
    line.show("a", ["a"])
    line.hide()
    line.hide()
    assert "a" in stream.getvalue() and shown(stream.getvalue()) == [""]
