"""What Snakemake's records become on a terminal: one line a job, errors whole, nothing of scheduling."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest
from snakemake.logging import ColorizingTextHandler, DefaultFormatter
from snakemake_interface_logger_plugins.common import LogEvent

from platoon.pipeline.job_lines import job_line, shorten
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
    return record(event=LogEvent.JOB_INFO, rule_msg=message, reason=reason, jobid=18)


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
        record("Error in rule train_run:\n    log: logs/train/main.log", LogEvent.ERROR),
    )
    assert [row for row in shown(text) if row] == ["train main", "Error in rule train_run:", "    log: logs/train/main.log"]


def test_elsewhere_nothing_changes() -> None:
    assert "Select jobs to execute..." in handled(io.StringIO(), record("Select jobs to execute..."))
