"""Finished records of agents: one trajectory each, a collection per rollout with the root first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from platoon.core.task import Task


@dataclass
class TrajectoryStep:
    """One model call: `action_misc` (completion id, model, usage), `message`, perhaps `reward_misc`, and the harness's notes."""

    misc: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ParentInfo:
    """id: the parent's trajectory. fork_step: how many calls the parent had made when this agent opened."""

    id: str
    fork_step: int


@dataclass
class Trajectory:
    """misc keys are an interface that training, reports and viewers read."""

    id: str
    task: Task
    parent_info: ParentInfo | None = None
    steps: list[TrajectoryStep] = field(default_factory=list)
    reward: float = 0.0
    finish_message: str | None = None
    error_message: str | None = None
    misc: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "task": self.task.to_dict(),
            "parent_info": None
            if self.parent_info is None
            else {"id": self.parent_info.id, "fork_step": self.parent_info.fork_step},
            "steps": [{"misc": plain(step.misc)} for step in self.steps],
            "reward": self.reward,
            "finish_message": self.finish_message,
            "error_message": self.error_message,
            "misc": plain(self.misc),
        }


@dataclass
class TrajectoryCollection:
    """id: the rollout's id. trajectories: by id, the root first."""

    id: str
    trajectories: dict[str, Trajectory] = field(default_factory=dict)

    @property
    def root(self) -> Trajectory:
        return next(iter(self.trajectories.values()))

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, "trajectories": {key: item.to_dict() for key, item in self.trajectories.items()}}


def plain(value: Any) -> Any:
    """A value of dicts, lists, strings, numbers, booleans and None; what is none of these becomes its text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    return str(value)
