"""The one table of exit codes; `docs/reference/exits.md` is checked against it."""

from __future__ import annotations

DONE = 0
FAILED = 1
WATCHDOG = 2
USAGE = 64
TRY_AGAIN = 75
CONFIG = 78
WORKER_MEMORY = 87
WORKER_TIMEOUT = 88
INTERRUPTED = 130
TERMINATED = 143

MEANINGS: dict[int, str] = {
    DONE: "done",
    FAILED: "failed while running",
    WATCHDOG: "the watchdog saw no heartbeat and ended the run",
    USAGE: "the command line is wrong",
    TRY_AGAIN: "held by another live trainer, or the time budget is reached and the work is saved",
    CONFIG: "configuration refused, not prepared, or another identity than the run has",
    WORKER_MEMORY: "a rollout worker passed its memory limit (workers only)",
    WORKER_TIMEOUT: "a rollout worker passed its hard time limit (workers only)",
    INTERRUPTED: "ended by SIGINT, a run after saving",
    TERMINATED: "ended by SIGTERM, a run after saving",
}
