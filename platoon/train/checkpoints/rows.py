"""Rows of `checkpoints.jsonl` and `checkpoints_deleted.jsonl`: what they hold, and reading them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from platoon.errors import Problem
from platoon.train.config_defs.values import PolicyId
from platoon.train.policy.spec import MAIN
from platoon.train.run_directory.row_logs import Count, Row, Text, read_rows

CHECKPOINTS_FILE = "checkpoints.jsonl"
DELETED_FILE = "checkpoints_deleted.jsonl"
CHECKPOINT_ADVICE = "delete the line to go on from the checkpoints that are left, or bring it back as it was"
DELETED_ADVICE = "delete the line; what it names is asked for once more"


# The service's names of what it keeps: exactly three parts.
StatePath = Annotated[str, Field(pattern=r"^tinker://[^/\s.][^/\s]{0,255}/(external_)?weights/[^/\s.][^/\s]{0,255}$")]
SamplerPath = Annotated[str, Field(pattern=r"^tinker://[^/\s.][^/\s]{0,255}/(external_|sampler_)weights/[^/\s.][^/\s]{0,255}$")]


class DispatchRecord(Row):
    """The draws of a checkpoint. file: below the run directory; pruning deletes it with the row's weights."""

    file: Annotated[str, Field(pattern=r"^tasks/dispatch-s[0-9]{1,16}-[^/\x00-\x1f]{1,200}\.json$")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    format: Count
    start: Count


class SftRecord(Row):
    """The place of a supervised run in its data."""

    epoch: Count
    place: Count
    fingerprint: Text


class Weights(Row):
    """One policy's part of a save. Without counters there was one publication and one optimizer update a step of the run."""

    state_path: StatePath
    sampler_path: SamplerPath
    policy_version: Count = 0
    optimizer_steps: Count = 0


class CheckpointRow(Row):
    """A row of main. A row without `state_path` is no full save: nothing goes on from it."""

    name: Text
    batch: Count
    start: Count = 0
    epoch: Count = 0
    final: bool = False
    state_path: StatePath | None = None
    sampler_path: SamplerPath | None = None
    policy_version: Count = 0
    optimizer_steps: Count = 0
    rows_digest: Text | None = None
    policies: dict[PolicyId, Weights] = Field(default_factory=dict)
    dispatch: DispatchRecord | None = None
    sft: SftRecord | None = None

    def checks(self) -> Iterator[Problem]:
        if self.state_path is not None:
            for key in ("sampler_path", "rows_digest"):
                if getattr(self, key) is None:
                    yield Problem("is required beside state_path", key=key)


class DeletedRow(Row):
    """A path that the service no longer has."""

    path: StatePath | SamplerPath


def policy_file(run_dir: Path, policy: str) -> Path:
    """The row log of one policy; main's is the run's."""
    return run_dir / CHECKPOINTS_FILE if policy == MAIN else run_dir / "policies" / policy / CHECKPOINTS_FILE


def checkpoint_rows(run_dir: Path) -> list[dict[str, Any]]:
    """Main's rows that a start could go on from, oldest first. Raises ConfigError for a row that is none."""
    rows = read_rows(policy_file(run_dir, MAIN), CheckpointRow, CHECKPOINT_ADVICE)
    return [row for row in rows if row.get("state_path")]


def deleted_paths(run_dir: Path) -> frozenset[str]:
    """What pruning had the service delete. Raises ConfigError for a row that is none."""
    return frozenset(row["path"] for row in read_rows(run_dir / DELETED_FILE, DeletedRow, DELETED_ADVICE))
