"""The output directory of an evaluation: a directory for each rollout, whose `metadata.json` comes last and says it is done."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from platoon.artifacts.publish import WRITABLE, publish_json
from platoon.artifacts.reading import parse_json, read_regular
from platoon.artifacts.row_log import append_json_line
from platoon.errors import ConfigError, Problem
from platoon.eval.plan import PlannedRollout
from platoon.train.run_directory.row_logs import MOST, Row, read_rows

METADATA = "metadata.json"
STARTS = "starts.jsonl"
COLLECTION = "trajectory_collection.json"


class StartRow(Row):
    """A start that played rollouts. seconds: of wall time."""

    seconds: Annotated[float, Field(ge=0, le=MOST)]


@dataclass(frozen=True)
class RolloutRecord:
    """One finished rollout. status: of its root. reward: None unless it was scored. reason and error: why it has
    no measurement, by name and in words."""

    entry: str
    task_id: str
    index: int
    status: str
    reward: float | None
    rewards: Mapping[str, float] = field(default_factory=dict)
    reward_key: str = ""
    failure_kind: str | None = None
    error: str | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)
    calls: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None

    @property
    def fault(self) -> str | None:
        """The shortest name of why there is no measurement; None with one."""
        return (self.reason or self.failure_kind or self.status) if self.errored else None

    @property
    def errored(self) -> bool:
        """Anything but a measurement: never a failure with reward 0."""
        return self.status != "scored"

    def to_dict(self) -> dict[str, Any]:
        return {
            "entry": self.entry,
            "task_id": self.task_id,
            "rollout_index": self.index,
            "status": "errored" if self.errored else "completed",
            "outcome_status": self.status,
            "reward": self.reward,
            "rewards": dict(self.rewards),
            "reward_key": self.reward_key,
            "failure_kind": self.failure_kind,
            "reason": self.reason,
            "error": self.error,
            "seconds": dict(self.seconds),
            "wall_time_seconds": self.seconds.get("total", 0.0),
            "usage": dict(self.tokens),
            "calls": self.calls,
            "outcome_metadata": dict(self.metadata),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> RolloutRecord:
        """Raises KeyError, TypeError or ValueError for what `to_dict` did not write."""
        return cls(
            str(value["entry"]),
            str(value["task_id"]),
            int(value["rollout_index"]),
            str(value["outcome_status"]),
            None if value["reward"] is None else float(value["reward"]),
            dict(value["rewards"]),
            str(value["reward_key"]),
            value["failure_kind"],
            value["error"],
            dict(value["seconds"]),
            dict(value["usage"]),
            int(value["calls"]),
            dict(value["outcome_metadata"]),
            value.get("reason"),
        )


@dataclass(frozen=True)
class EvaluationStore:
    """provenance: what must be the same for rollouts of one directory to be counted together."""

    directory: Path
    provenance: Mapping[str, Any]

    def path(self, rollout: PlannedRollout) -> Path:
        return self.directory / rollout.directory

    def check(self) -> None:
        """Raises ConfigError when a rollout stored here was made from something else."""
        for path in sorted(self.directory.glob(f"rollouts/*/*/{METADATA}")):
            other = _read(path).get("provenance", {})
            for key in sorted(self.provenance.keys() & other.keys()):
                if other[key] != self.provenance[key]:
                    rule = f"holds rollouts of another evaluation: {key} is {other[key]!r} there and {self.provenance[key]!r} here"
                    raise ConfigError(Problem(rule, file=str(self.directory), advice="give another --output-dir"))

    def load(self, rollout: PlannedRollout) -> RolloutRecord | None:
        """The record of a finished rollout, None when it is not there or cannot be read."""
        try:
            return RolloutRecord.from_dict(_read(self.path(rollout) / METADATA))
        except (KeyError, TypeError, ValueError):
            return None

    def fresh(self, rollout: PlannedRollout) -> Path:
        """An empty directory for a rollout that begins; what an interrupted one left is removed."""
        path = self.path(rollout)
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def save(self, rollout: PlannedRollout, record: RolloutRecord) -> None:
        """Marks a rollout as done; nothing of it changes afterwards."""
        self._settle(rollout)
        publish_json(self.path(rollout) / METADATA, {**record.to_dict(), "provenance": dict(self.provenance)}, WRITABLE)

    def add_elapsed(self, seconds: float) -> None:
        """Notes the wall time of a start that played rollouts."""
        append_json_line(self.directory / STARTS, {"seconds": seconds})

    def elapsed_s(self) -> float:
        """Wall seconds of all starts that played rollouts: the same whoever asks, and how often."""
        advice = "delete the line, which loses the time of one start alone"
        return math.fsum(row["seconds"] for row in read_rows(self.directory / STARTS, StartRow, advice))

    def _settle(self, rollout: PlannedRollout) -> None:
        """Gives the stored collection of a rollout the one name that readers look for."""
        directory = self.path(rollout)
        for path in (directory / "trajectories").glob("*.json"):
            path.rename(directory / COLLECTION)
        shutil.rmtree(directory / "trajectories", ignore_errors=True)

    def finished(self, plan: Sequence[PlannedRollout], *, retry_errored: bool) -> dict[PlannedRollout, RolloutRecord]:
        """The rollouts of a plan that need not be played again."""
        found = {rollout: self.load(rollout) for rollout in plan}
        return {
            rollout: record for rollout, record in found.items() if record is not None and not (retry_errored and record.errored)
        }


def _read(path: Path) -> dict[str, Any]:
    """A rollout's metadata; {} when it is not there or not whole: such a rollout is played again."""
    try:
        value = parse_json(read_regular(path))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
