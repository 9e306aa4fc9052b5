"""What Snakemake writes on a terminal that the commands of its jobs draw on: one line a job, and what is wrong.

How it selects and counts jobs, and why a job that was never made is made, goes to its log alone. Each line begins by clearing the
status line that a command may have drawn there. Where standard error is no terminal, nothing changes.
"""

from __future__ import annotations

import logging
from typing import Any

from platoon.host.status_line import CLEAR

STREAM_HANDLER = "DefaultStreamHandler"
SCHEDULING = ("Select jobs to execute", "Execute ", "DAG of jobs will be updated", "Updating checkpoint dependencies")
# Of a reason: what every job of a first run has.
EVERY_JOBS = ("Missing output files", "Input files updated by another job")


def shorten(logger: logging.Logger) -> None:
    """Puts short lines in place of those that Snakemake writes on a terminal. Idempotent."""
    for handler in list(logger.handlers):
        stream = getattr(handler, "stream", None)
        if handler.name == STREAM_HANDLER and stream is not None and stream.isatty():
            logger.removeHandler(handler)
            logger.addHandler(_JobLines(handler))


class _JobLines(logging.Handler):
    """Writes what Snakemake's own handler would, shortened; `inner` still formats, colours and filters."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner.level)
        self._inner = inner
        for chosen in inner.filters:
            self.addFilter(chosen)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self._text(record)
            if text:
                self._inner.stream.write(f"{CLEAR}{text}\n")
                self._inner.stream.flush()
        except OSError:
            pass
        except Exception:  # because a fault in telling must not end a run
            self.handleError(record)

    def _text(self, record: logging.LogRecord) -> str:
        line = job_line(record)
        if line is None:
            text = self._inner.format(record)
            return "" if text.startswith(SCHEDULING) else str(self._inner.decorate(record, text))
        return line

    def close(self) -> None:
        self._inner.close()
        super().close()


def job_line(record: logging.LogRecord) -> str | None:
    """The line of a job that begins, None for any other record and for a job whose rule has no message."""
    event = getattr(record, "event", None)
    if getattr(event, "name", "") != "JOB_INFO" or not getattr(record, "rule_msg", None):
        return None
    reasons = [reason for reason in str(getattr(record, "reason", "")).split("; ") if reason and not reason.startswith(EVERY_JOBS)]
    return f"{record.rule_msg} ({'; '.join(reasons)})" if reasons else str(record.rule_msg)  # type: ignore[attr-defined]
