"""What an environment service and its sessions offer, and what a harness asks of a session.

A session may raise from `call_tool` and `grade`: the callers turn that into an error result and an `unexpected:<Type>` outcome.
`close` is idempotent, is called on every path, and must be safe during and after cancellation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from platoon.core.outcome import Outcome
from platoon.core.task import Task
from platoon.core.tools import ToolResult, ToolSpec

ForkMode = Literal["shared", "copy", "fresh"]


@dataclass(frozen=True)
class Mount:
    """A host path bound at a path of a sandbox."""

    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True)
class SessionNeeds:
    """What a harness needs of the sandbox it will run in.

    upstreams: names to endpoints (`unix:///abs/socket`, `http://host:port`) that must be reachable from inside; `gateway` is the
    model gateway. mounts: host paths to bind. extra_memory_mb: added to a limit the task sets.
    """

    upstreams: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    extra_memory_mb: int = 0


@runtime_checkable
class EnvSession(Protocol):
    """One rollout's live view of one task. sandbox: the agents' view of its `sandbox.base.Sandbox`, None where there is none."""

    task: Task
    instruction: str
    sandbox: Any

    async def tools(self) -> Sequence[ToolSpec]: ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolResult: ...

    async def grade(self) -> Outcome: ...

    async def fork(self, mode: ForkMode = "shared", *, task: Task | None = None) -> EnvSession: ...

    async def close(self) -> None: ...


@runtime_checkable
class EnvironmentService(Protocol):
    """A source of tasks that opens one session per rollout.

    `open` raises `errors.EnvSetupError` when a session cannot start. capabilities: which optional methods there are (`splits`,
    `names`, `checks`, `overhead`).
    """

    name: str
    capabilities: frozenset[str]

    async def list_tasks(self, split: str) -> Sequence[str]: ...

    async def get_task(self, task_id: str) -> Task: ...

    async def open(self, task: Task, *, rollout_id: str, needs: SessionNeeds | None = None) -> EnvSession: ...


@runtime_checkable
class ChecksTasks(Protocol):
    """A service that knows before it opens a task that it would refuse it (capability `checks`)."""

    async def check_tasks(self, split: str, task_ids: Iterable[str]) -> None:
        """Raises ConfigError with the tasks that it would refuse."""
