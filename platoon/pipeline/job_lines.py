"""What Snakemake writes about jobs whose commands write to the same place: a line for each that begins, and for each that fails.

A command says itself why it failed: its shell line, its log and a second account of it would only bury that. How jobs are selected
and counted, and why a job that was never made is made, goes to Snakemake's log alone. Commands draw on a terminal, so each line
begins there by clearing the status line; elsewhere, where it is read later, a job's line begins with the time.
"""

from __future__ import annotations

import logging
import re
import time
from typing import Any

from platoon import exits
from platoon.host.status_line import CLEAR

STREAM_HANDLER = "DefaultStreamHandler"
SCHEDULING = ("Select jobs to execute", "Execute ", "DAG of jobs will be updated", "Updating checkpoint dependencies")
# Of a reason: what every job of a first run has.
EVERY_JOBS = ("Missing output files", "Input files updated by another job")
FAILED = "failed: "
TIME = "%Y-%m-%d %H:%M:%S"
# A job's line as it is written where it is read later.
TIMED = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?P<message>.+?)(?: \((?P<reasons>.+)\))?$")
# What Snakemake says of its own end, which says nothing more to whom a failed job was told.
ENDINGS = (
    "Shutting down, this might",
    "Exiting because a job execution failed",
    "WorkflowError:\nAt least one job did not complete",
)
_ENDED = re.compile(r"returned non-zero exit status (?P<code>\d+)|died with <Signals\.(?P<signal>\w+)")


def shorten(logger: logging.Logger) -> None:
    """Puts short lines in place of those that Snakemake writes about jobs of this machine. Idempotent."""
    for handler in list(logger.handlers):
        stream = getattr(handler, "stream", None)
        if handler.name == STREAM_HANDLER and stream is not None:
            logger.removeHandler(handler)
            logger.addHandler(_JobLines(handler, is_terminal=stream.isatty()))


class _JobLines(logging.Handler):
    """Writes what Snakemake's own handler would, shortened; `inner` still formats, colours and filters."""

    def __init__(self, inner: Any, *, is_terminal: bool) -> None:
        super().__init__(inner.level)
        self._inner, self._is_terminal = inner, is_terminal
        self._failures = Failures()
        for chosen in inner.filters:
            self.addFilter(chosen)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self._failures.line(record)
            if text := self._short(record) if text is None else text:
                self._inner.stream.write(f"{CLEAR if self._is_terminal else ''}{text}\n")
                self._inner.stream.flush()
        except OSError:
            pass
        except Exception:  # because a fault in telling must not end a run
            self.handleError(record)

    def _short(self, record: logging.LogRecord) -> str:
        line = job_line(record)
        if line is None:
            text = self._inner.format(record)
            return "" if text.startswith(SCHEDULING) else str(self._inner.decorate(record, text))
        return line if self._is_terminal else f"{time.strftime(TIME, time.localtime(record.created))} {line}"

    def close(self) -> None:
        self._inner.close()
        super().close()


class Failures:
    """Makes one line of what Snakemake tells of a command that failed: an exception with the shell line, then the job's fields."""

    def __init__(self) -> None:
        self._jobs: dict[int, str] = {}
        self._ended: list[str] = []
        self._is_told = False

    def line(self, record: logging.LogRecord) -> str | None:
        """The line of a job that failed, "" for what is part of one or only follows from it, None for any other record."""
        event = _event(record)
        if self._is_told and record.getMessage().startswith(ENDINGS):
            return ""
        if event == "JOB_INFO":
            self._jobs[record.jobid] = job_name(record)  # type: ignore[attr-defined]
        elif event == "ERROR" and _ENDED.search(record.getMessage()):
            self._ended.append(record.getMessage())
            return ""
        elif event == "JOB_ERROR":
            return self._failed(record)
        return None

    def _failed(self, record: Any) -> str:
        self._is_told = True
        command = record.shellcmd or ""
        told = next((text for text in self._ended if command in text), "")
        if told:
            self._ended.remove(told)
        name = self._jobs.get(record.jobid, record.rule_name)
        log = f"; log: {', '.join(record.log)}" if record.log else ""
        return f"{FAILED}{name} ({ended(told)}{log})"


def ended(text: str) -> str:
    """How a command ended, by Snakemake's account of it: its exit status with the meaning it has here, or the signal."""
    found = _ENDED.search(text)
    if found is None:
        return "no exit status"
    if found["signal"]:
        return f"ended by {found['signal']}"
    code = int(found["code"])
    return f"exit status {code}" + (f": {exits.MEANINGS[code]}" if code in exits.MEANINGS else "")


def job_name(record: Any) -> str:
    """What a job does, by its rule's message, or else the rule's name."""
    return str(getattr(record, "rule_msg", None) or record.rule_name)


def job_line(record: logging.LogRecord) -> str | None:
    """The line of a job that begins, None for any other record and for a job whose rule has no message."""
    if _event(record) != "JOB_INFO" or not getattr(record, "rule_msg", None):
        return None
    reasons = [reason for reason in str(getattr(record, "reason", "")).split("; ") if reason and not reason.startswith(EVERY_JOBS)]
    return f"{job_name(record)} ({'; '.join(reasons)})" if reasons else job_name(record)


def _event(record: logging.LogRecord) -> str:
    return str(getattr(getattr(record, "event", None), "name", ""))
