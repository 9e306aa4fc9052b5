"""A task: what an agent is asked to do, and the free-form facts that travel with it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Task:
    """id: unique in its entry. goal: the prompt text, None when the session tells it. max_steps: the root's budget of calls."""

    id: str
    goal: str | None = None
    max_steps: int | None = None
    misc: Mapping[str, Any] = field(default_factory=dict)

    def with_misc(self, **more: Any) -> Task:
        """A copy whose misc has more keys; the original is not touched."""
        return replace(self, misc={**self.misc, **more})

    def fork(self, goal: str, max_steps: int | None = None, task_misc: Mapping[str, Any] | None = None) -> Task:
        """A child task with an id of its own. `task_misc` replaces the misc whole; without it the child shares its parent's."""
        return Task(uuid.uuid4().hex, goal, max_steps, self.misc if task_misc is None else task_misc)

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, "goal": self.goal, "max_steps": self.max_steps, "misc": dict(self.misc)}
