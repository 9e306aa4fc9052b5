"""Requeueing the Slurm job that a process is in, with a `scontrol` that is made up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from platoon.host.slurm import requeue_job

pytestmark = pytest.mark.unit

SHOWN = "JobId=7 JobName=train Requeue={requeue} Restarts=1 Comment=Requeue"


class Scontrol:
    """What stands in for it, and what it was asked."""

    def __init__(self, directory: Path) -> None:
        self._place, self._asked = directory / "scontrol", directory / "asked"

    def answers(self, show: str, requeue: str = "true") -> None:
        script = f'#!/bin/sh\necho "$@" >> {self._asked}\ncase $1 in show) {show} ;; requeue) {requeue} ;; esac\n'
        self._place.write_text(script)
        self._place.chmod(0o755)

    @property
    def asked(self) -> list[str]:
        return self._asked.read_text().splitlines() if self._asked.exists() else []


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scontrol:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    return Scontrol(tmp_path)


def told() -> list[str]:
    lines: list[str] = []
    requeue_job(lines.append, ended_within_s=0.0)
    return lines


def test_a_job_that_may_be_requeued_is(scontrol: Scontrol) -> None:
    scontrol.answers(f"echo {SHOWN.format(requeue=1)}")
    assert told() == ["Slurm job 7 goes back into the queue and goes on from what is saved"]
    assert scontrol.asked == ["show job --oneliner 7", "requeue 7"]


def test_one_that_may_not_is_left_to_end(scontrol: Scontrol) -> None:
    scontrol.answers(f"echo {SHOWN.format(requeue=0)}")
    assert told() == [] and scontrol.asked == ["show job --oneliner 7"]


def test_outside_a_job_slurm_is_not_asked(scontrol: Scontrol, monkeypatch: pytest.MonkeyPatch) -> None:
    scontrol.answers(f"echo {SHOWN.format(requeue=1)}")
    monkeypatch.delenv("SLURM_JOB_ID")
    assert told() == [] and scontrol.asked == []


@pytest.mark.parametrize(
    ("show", "requeue", "reason"),
    [
        ("echo Invalid job id specified >&2; exit 1", "true", "Invalid job id specified"),
        (f"echo {SHOWN.format(requeue=1)}", "echo Job is held >&2; exit 1", "Job is held"),
        (f"echo {SHOWN.format(requeue=1)}", "exit 3", "scontrol exited with 3"),
    ],
)
def test_what_slurm_refuses_is_told_and_the_command_ends_as_it_would(
    show: str, requeue: str, reason: str, scontrol: Scontrol
) -> None:
    scontrol.answers(show, requeue)
    assert told()[-1] == f"Slurm job 7 is not requeued: {reason}"


def test_a_node_without_scontrol_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert told() == ["Slurm job 7 is not requeued: scontrol: No such file or directory"]
