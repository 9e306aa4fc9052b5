"""What a command tells: plain lines where nobody watches, one line drawn in place on a terminal."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from platoon.errors import ConfigError, Problem
from platoon.host.console import Console
from tests.processes import wait_for

pytestmark = pytest.mark.unit


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(text)


def test_lines_come_at_a_change_of_stage_and_once_a_minute() -> None:
    stream, seconds = io.StringIO(), [0.0]
    with Console(stream, clock=lambda: seconds[0]) as console:
        console.progress("starting")
        for second in range(1, 200):
            seconds[0] = second
            console.progress("training", f"step {second}", "an update")
    assert stream.getvalue().splitlines() == [
        "starting",
        "training: step 1 (waiting for an update)",
        "training: step 61 (waiting for an update)",
        "training: step 121 (waiting for an update)",
        "training: step 181 (waiting for an update)",
        "training: step 199",
    ]


def test_a_short_stage_is_worth_no_line_and_a_long_one_tells_how_it_ended() -> None:
    stream, seconds = io.StringIO(), [0.0]
    with Console(stream, clock=lambda: seconds[0]) as console:
        for stage, tick_s in (("short", 0.1), ("long", 1.0)):
            for task in range(1, 11):
                seconds[0] += tick_s
                console.progress(stage, f"{task} of 10 tasks", patience_s=2.0)
        console.progress("reading", "a file")
    assert stream.getvalue().splitlines() == ["long: 3 of 10 tasks", "long: 10 of 10 tasks", "reading: a file"]


@pytest.mark.parametrize("detail", ["", "step 3 of 3"])
def test_what_is_said_of_a_stage_is_its_end(detail: str) -> None:
    stream = io.StringIO()
    with Console(stream) as console:
        console.progress("training", "step 1 of 3")
        console.progress("training", detail)
        if detail:
            console.say("3 steps done")
    assert stream.getvalue().splitlines() == ["training: step 1 of 3", *(["3 steps done"] if detail else [])]


def test_a_stage_that_told_no_wait_tells_the_first_that_lasts() -> None:
    stream, seconds = io.StringIO(), [0.0]
    with Console(stream, clock=lambda: seconds[0]) as console:
        console.progress("opening sessions")
        for second in range(50):
            seconds[0] = second
            console.progress("opening sessions", "", "the service")
    assert stream.getvalue().splitlines() == ["opening sessions", "opening sessions (waiting for the service)"]


def test_a_log_file_gets_plain_lines_with_times_also_beside_a_terminal(tmp_path: Path) -> None:
    screen = Terminal()
    with Console(screen, tmp_path / "logs/run.log") as console:
        console.progress("training", "step 1")
        console.say("[saved] checkpoint 1")
    lines = (tmp_path / "logs/run.log").read_text().splitlines()
    assert [re.sub(r"^[0-9T:-]+Z ", "", line) for line in lines] == ["training: step 1", "[saved] checkpoint 1"]
    assert "[saved] checkpoint 1" in screen.getvalue()
    assert "\x1b[" in screen.getvalue()


def test_a_terminal_shows_each_change_as_it_is() -> None:
    screen = Terminal()
    with Console(screen) as console:
        for step in (1, 2):
            text = f"[/step] {step} of 2"
            console.progress("training", text, "an update")
            wait_for(lambda: f"training: {text} (waiting for an update)" in screen.getvalue())  # noqa: B023  called in this turn


def test_the_error_that_ends_a_command_is_in_its_log(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "rule.log"
    with pytest.raises(ConfigError), Console(io.StringIO(), log) as console, console.also_to(tmp_path / "run.log"):
        raise ConfigError(Problem("unknown key", key="train.bach_size", file="rl.yaml"))
    for path in (log, tmp_path / "run.log"):
        assert "rl.yaml: train.bach_size: unknown key" in path.read_text()


def test_what_cannot_be_told_ends_nothing() -> None:
    """A full disk below the log, a reader of standard error that is gone."""
    with Console(Gone(), Path("/dev/full")) as console:
        console.say("nobody reads this")
        console.progress("stage", "detail", "something")
