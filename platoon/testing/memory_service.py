"""An environment in memory: for episodes without a sandbox, with a grade of the test's choosing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from platoon.core.outcome import Outcome
from platoon.core.protocols import ForkMode, SessionNeeds
from platoon.core.task import Task
from platoon.core.tools import ToolResult, ToolSpec

Tool = Callable[[Mapping[str, Any]], str]


@dataclass
class MemorySession:
    """calls: what tools were called with, in order. closed: how often `close` ran."""

    task: Task
    instruction: str
    service: MemoryService
    sandbox: Any = None
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    closed: int = 0

    async def tools(self) -> Sequence[ToolSpec]:
        return [ToolSpec(name, name, {"type": "object", "properties": {}}) for name in self.service.tools]

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        self.calls.append((name, dict(arguments)))
        return ToolResult.text(self.service.tools[name](arguments))

    async def grade(self) -> Outcome:
        return self.service.grade(self)

    async def fork(self, mode: ForkMode = "shared", *, task: Task | None = None) -> MemorySession:
        forked = MemorySession(task or self.task, self.instruction, self.service, self.sandbox)
        self.service.sessions.append(forked)
        return forked

    async def close(self) -> None:
        self.closed += 1


def scored(reward: float = 1.0) -> Callable[[MemorySession], Outcome]:
    return lambda session: Outcome("scored", {"reward": reward})


@dataclass
class MemoryService:
    """tasks: by id. grade: asked once an episode. tools: by name, from arguments to text. sessions: all that were opened."""

    tasks: Mapping[str, Task] = field(default_factory=dict)
    grade: Callable[[MemorySession], Outcome] = field(default_factory=scored)
    tools: Mapping[str, Tool] = field(default_factory=dict)
    name: str = "memory"
    capabilities: frozenset[str] = frozenset()
    make_sandbox: Callable[[], Any] | None = None
    sessions: list[MemorySession] = field(default_factory=list)

    async def list_tasks(self, split: str) -> Sequence[str]:
        return list(self.tasks)

    async def get_task(self, task_id: str) -> Task:
        return self.tasks.get(task_id) or Task(task_id, goal=f"do {task_id}")

    async def open(self, task: Task, *, rollout_id: str, needs: SessionNeeds | None = None) -> MemorySession:
        sandbox = self.make_sandbox() if self.make_sandbox is not None else None
        session = MemorySession(task, task.goal or f"do {task.id}", self, sandbox)
        self.sessions.append(session)
        return session
