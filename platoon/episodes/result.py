"""What a finished rollout is to those who asked for it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from platoon.core.outcome import Outcome
from platoon.core.task import Task
from platoon.core.trajectory import TrajectoryCollection
from platoon.rows.merge import TrajectoryCalls

STAGES = ("setup", "agent", "model", "grade", "total")
UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True)
class RolloutResult:
    """trajectories: what may train, () unless the outcome is scored. recorded: everything that was sampled, for storage.

    seconds: by stage of `STAGES`; `model` is part of `agent`. tokens: `prompt` and `completion`, as requested, not merged.
    """

    rollout_id: str
    task: Task
    collection: TrajectoryCollection
    outcome: Outcome
    trajectories: tuple[TrajectoryCalls, ...]
    recorded: tuple[TrajectoryCalls, ...]
    seconds: Mapping[str, float]
    tokens: Mapping[str, int]
    calls: int

    def parsing(self) -> dict[str, int]:
        """How the model's replies read: generations, those that ended by themselves, calls emitted, recovered and unparsed."""
        generations = [
            item for trajectory in self.collection.trajectories.values() for item in trajectory.misc["model_generations"]
        ]
        counted = ("emitted_calls", "recovered_calls", "unparsed_calls")
        return {
            "generations": len(generations),
            "clean": sum(bool(item["parse_success"]) for item in generations),
            **{name: sum(item[name] for item in generations) for name in counted},
        }

    def summary(self) -> dict[str, Any]:
        """As `platoon rollout --json` prints it."""
        agents = [
            {
                "id": trajectory.id,
                "role": trajectory.misc["agent"]["role"],
                "parent": None if trajectory.parent_info is None else trajectory.parent_info.id,
                "steps": len(trajectory.steps),
                "reward": trajectory.reward,
                "outcome": trajectory.misc["outcome"]["status"],
                "error": trajectory.error_message,
                "goal": trajectory.task.goal,
            }
            for trajectory in self.collection.trajectories.values()
        ]
        return {
            "id": self.rollout_id,
            "task": self.task.id,
            "agents": agents,
            "total_steps": sum(len(trajectory.steps) for trajectory in self.collection.trajectories.values()),
            "max_depth": max(trajectory.misc["agent"]["depth"] for trajectory in self.collection.trajectories.values()),
            "reward": self.outcome.reward,
            "outcome": self.outcome.to_dict(),
            "seconds": {stage: round(value, 3) for stage, value in self.seconds.items()},
            "tokens": dict(self.tokens),
            "parsing": self.parsing(),
        }


def new_rollout_id(task_id: str) -> str:
    """The task id's last 80 characters made safe for paths, and 12 random hex digits."""
    return f"{UNSAFE.sub('-', task_id[-80:])}-{secrets.token_hex(6)}"
