"""What Snakemake's records become on a terminal: one line a job, errors whole, nothing of scheduling."""

from __future__ import annotations

import io
import logging
import re
from typing import Any

import pytest
from snakemake.logging import ColorizingTextHandler, DefaultFormatter
from snakemake_interface_logger_plugins.common import LogEvent

from platoon import exits
from platoon.pipeline.job_lines import TIMED, job_line, shorten
from tests.screens import shown

pytestmark = pytest.mark.unit


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def record(text: str = "", event: LogEvent | None = None, **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("snakemake.logging", logging.INFO, __file__, 1, text, None, None)
    made.__dict__.update({"event": event, **more} if event else more)
    return made


def job(reason: str, message: str | None = "train main") -> logging.LogRecord:
    more = {"rule_name": "train_run", "reason": reason, "jobid": 18, "indent": False, "is_checkpoint": False, "local": False}
    return record(event=LogEvent.JOB_INFO, rule_msg=message, **more)


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("Missing output files: results/main/train.json", "train main"),
        ("Missing output files: a; Input files updated by another job: b, c", "train main"),
        ("Updated input files: tasks/a; Input files updated by another job: b", "train main (Updated input files: tasks/a)"),
        ("Params have changed since last execution: x", "train main (Params have changed since last execution: x)"),
    ],
)
def test_a_job_is_told_with_what_is_its_own_reason(reason: str, line: str) -> None:
    assert job_line(job(reason)) == line


def handled(stream: io.StringIO, *records: logging.LogRecord) -> str:
    logger = logging.Logger("of a test")
    handler = ColorizingTextHandler(stream=stream, formatter=DefaultFormatter())
    handler.name = "DefaultStreamHandler"
    handler.addFilter(lambda kept: "filtered" not in str(kept.msg))
    logger.addHandler(handler)
    shorten(logger)
    shorten(logger)
    for item in records:
        logger.handle(item)
    return stream.getvalue()


def test_a_terminal_is_told_of_jobs_and_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    stream.write("⠙ lock: environment shell")
    text = handled(
        stream,
        record("Select jobs to execute..."),
        record("Execute 1 jobs...", LogEvent.JOB_STARTED),
        record("DAG of jobs will be updated after completion."),
        record("filtered"),
        job("Missing output files: x"),
        record("Exiting because a job execution failed", LogEvent.ERROR),
    )
    assert [row for row in shown(text) if row] == ["train main", "Exiting because a job execution failed"]


def exception(command: str, end: str) -> logging.LogRecord:
    text = f"RuleException:\nCalledProcessError in file \"rules/train.smk\", line 35:\nCommand 'set -e; {command}' {end}."
    return record(text, LogEvent.ERROR, exception="RuleException")


def failure(command: str, jobid: int = 18, log: tuple[str, ...] = ("logs/train/main.log",)) -> logging.LogRecord:
    more = {"rule_name": "train_run", "rule_msg": None, "jobid": jobid, "shellcmd": command, "log": list(log)}
    return record("Error in rule train_run", LogEvent.JOB_ERROR, **more)


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "pipe"])
def test_a_job_that_failed_is_told_in_one_line(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once, each with its own end; the shell lines and what the log holds are not repeated."""
    monkeypatch.setenv("TERM", "xterm")
    text = handled(
        stream,
        job("Missing output files: x"),
        exception("exec platoon train a", "returned non-zero exit status 78"),
        exception("exec platoon train b", "died with <Signals.SIGKILL: 9>"),
        failure("exec platoon train b", jobid=19, log=()),
        failure("exec platoon train a"),
        failure("exec platoon train c", jobid=20),
    )
    failed = [row for row in shown(text, columns=400) if row.startswith("failed: ")]
    assert failed == [
        "failed: train_run (ended by SIGKILL)",
        f"failed: train main (exit status 78: {exits.MEANINGS[78]}; log: logs/train/main.log)",
        "failed: train_run (no exit status; log: logs/train/main.log)",
    ]
    assert "platoon train" not in text and "None" not in text


def test_elsewhere_a_job_is_one_line_that_begins_with_the_time() -> None:
    """Scheduling is left out there too; what a rule without a message tells stays whole."""
    bare = job("Missing output files: x", message=None)
    bare.__dict__.update({"input": ["a"], "output": [], "log": [], "benchmark": None, "wildcards": {}})
    bare.__dict__.update({"priority": 0, "threads": 1, "resources": {}, "msg": None})
    text = handled(
        io.StringIO(),
        record("Select jobs to execute..."),
        record("Execute 1 jobs...", LogEvent.JOB_STARTED),
        record("filtered"),
        job("Updated input files: tasks/a; Input files updated by another job: b"),
        bare,
        record("Complete log(s): .snakemake/log/x"),
    )
    first, *rest = text.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d train main \(Updated input files: tasks/a\)", first)
    # As `prepare` reads it, with and without reasons.
    for line, reasons in ((first, "Updated input files: tasks/a"), (first.partition(" (")[0], None)):
        found = TIMED.match(line)
        assert found is not None and (found["message"], found["reasons"]) == ("train main", reasons)
    assert [line.strip() for line in rest[1:4]] == ["rule train_run:", "input: a", "jobid: 18"]
    assert rest[-1] == "Complete log(s): .snakemake/log/x" and "\x1b" not in text


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "pipe"])
def test_what_only_follows_from_a_failed_job_is_told_when_none_was(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    ends = [
        record("Shutting down, this might take some time."),
        record("Exiting because a job execution failed. Look above for error messages", LogEvent.ERROR),
        record("Complete log(s): .snakemake/log/x"),
        record("WorkflowError:\nAt least one job did not complete successfully.", LogEvent.ERROR, exception="WorkflowError"),
    ]
    whole = handled(type(stream)(), *ends)
    assert len([row for row in shown(whole) if row]) == 5
    told = [row for row in shown(handled(stream, failure("exec platoon train a"), *ends), columns=400) if row]
    assert [row.partition(":")[0] for row in told] == ["failed", "Complete log(s)"]
