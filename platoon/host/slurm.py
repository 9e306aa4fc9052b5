"""Slurm's own way to go on with a job: back into the queue, as the same job, which is started again later.

To whoever waits for the job (Snakemake's submitter) it is pending again, and has not failed.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable

JOB_VARIABLE = "SLURM_JOB_ID"
ANSWER_TIMEOUT_S = 60.0
# Slurm ends the processes of a job that it requeues, this one among them.
ENDED_WITHIN_S = 60.0


def requeue_job(say: Callable[[str], None], ended_within_s: float = ENDED_WITHIN_S) -> None:
    """Requeues the job that this process is in and waits for Slurm's signal.

    Returns where there is no such job, where it may not be requeued (`Requeue=0`), or where Slurm does not do it: what is to come
    is then the caller's to say. Save everything first.
    """
    job = os.environ.get(JOB_VARIABLE)
    if not job:
        return
    try:
        if "Requeue=1" not in _scontrol("show", "job", "--oneliner", job).split():
            return
        say(f"Slurm job {job} goes back into the queue and goes on from what is saved")
        _scontrol("requeue", job)
    except (OSError, subprocess.SubprocessError) as error:
        say(f"Slurm job {job} is not requeued: {_reason(error)}")
        return
    time.sleep(ended_within_s)


def _scontrol(*arguments: str) -> str:
    command = ["scontrol", *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=True, timeout=ANSWER_TIMEOUT_S).stdout


def _reason(error: OSError | subprocess.SubprocessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return str(error.stderr).strip() or f"scontrol exited with {error.returncode}"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"scontrol did not answer in {error.timeout:g} s"
    return f"scontrol: {error.strerror if isinstance(error, OSError) else error}"
