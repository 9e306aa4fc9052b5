"""One rollout's view of one Harbor task: a sandbox, the generic tools over it, and the task's own tests.

Views of one sandbox share a lease: its gate orders their calls, and the last close stops it. Grading holds the gate alone. `close`
is idempotent, and the end of a lease runs on when its caller is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from platoon.core.gate import CallClass, EnvBusy, GateClosed, ToolGate, current_caller
from platoon.core.outcome import Outcome
from platoon.core.protocols import ForkMode, SessionNeeds
from platoon.core.task import Task
from platoon.core.tools import ToolResult, ToolSpec
from platoon.envs.harbor.format import HarborTask
from platoon.envs.harbor.grading import GradingSettings, grade_shared
from platoon.envs.harbor.templates import resolve_env
from platoon.envs.sandbox_tools import TOOL_NAMES, TOOLS, call_sandbox_tool
from platoon.errors import EnvSetupError
from platoon.sandbox.base import ExecResult, Sandbox, SandboxProvider, SandboxSpec
from platoon.sandbox.labels import StartedSandbox

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class SessionSettings:
    """What a service's options say of each session; times in seconds."""

    tool_timeout_s: float
    close_timeout_s: float
    agent_timeout_s: float | None
    concurrent_tools: frozenset[str]
    grading: GradingSettings


class SandboxLease:
    """One live sandbox and the gate in front of it, shared by its views."""

    def __init__(self, started: StartedSandbox, gate: ToolGate, close_timeout_s: float) -> None:
        self.started, self.gate = started, gate
        self._close_timeout_s = close_timeout_s
        self._views = 0
        self._ending: asyncio.Task[None] | None = None

    @property
    def sandbox(self) -> Sandbox:
        return self.started.sandbox

    def enter(self) -> None:
        """One more view. Raises EnvSetupError when the sandbox is gone or going."""
        if self._ending is not None:
            raise EnvSetupError("session_closed", "the sandbox of this session is closed")
        self._views += 1

    async def leave(self) -> None:
        """One view less; the last one ends the sandbox, also when it is cancelled while it waits for that."""
        self._views -= 1
        if self._views == 0:
            self._ending = asyncio.ensure_future(self._end())
        if self._ending is not None:
            await asyncio.shield(self._ending)

    async def _end(self) -> None:
        if not await self.gate.close(self._close_timeout_s):
            logger.warning("sandbox %s: calls still ran %g s after the last close", self.sandbox.id, self._close_timeout_s)
        await self.started.stop()


class SessionOpener(Protocol):
    """What a session needs of its service to fork."""

    async def open(self, task: Task, *, rollout_id: str, needs: SessionNeeds | None = None) -> HarborSession: ...

    async def restore(self, session: HarborSession, task: Task) -> HarborSession: ...


@dataclass
class HarborSession:
    """A view of a lease; built by `HarborService`. rollout_id and needs are what it was opened with."""

    task: Task
    harbor_task: HarborTask
    rollout_id: str
    needs: SessionNeeds | None
    spec: SandboxSpec
    provider: SandboxProvider
    lease: SandboxLease
    settings: SessionSettings
    opener: SessionOpener
    view: str = field(default_factory=lambda: secrets.token_hex(4))
    manages_concurrency: bool = True
    _closed: bool = False

    def __post_init__(self) -> None:
        self.lease.enter()

    @property
    def instruction(self) -> str:
        return self.task.goal if self.task.goal is not None else self.harbor_task.instruction

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox as agents see it."""
        return self.lease.sandbox

    @property
    def network_isolated(self) -> bool:
        """Nothing outside is reached but through routes."""
        return self.spec.network == "none" and "network_none" in self.provider.capabilities

    @property
    def host_loopback(self) -> bool:
        """Commands reach what listens on this host's loopback."""
        return "host_loopback" in self.provider.capabilities and not self.network_isolated

    @property
    def agent_timeout_s(self) -> float | None:
        """The task's own limit of an agent's time."""
        return self.settings.agent_timeout_s

    async def tools(self) -> Sequence[ToolSpec]:
        return TOOLS

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """One call in turn. A call that is not admitted does not run, and says so."""
        if name not in TOOL_NAMES:
            return ToolResult.text(f"there is no tool {name!r}", is_error=True)
        kind: CallClass = "concurrent" if name in self.settings.concurrent_tools else "serial"

        async def call() -> ToolResult:
            return await call_sandbox_tool(self.sandbox, name, arguments, timeout_s=self.settings.tool_timeout_s)

        try:
            return await self._turn(call, kind)
        except (EnvBusy, GateClosed) as refusal:
            return ToolResult.text(str(refusal), is_error=True)

    async def grade(self) -> Outcome:
        """Runs the task's tests, alone, and gives their verdict; cancelling it ends the tests."""
        if self._closed:
            return Outcome.infra("session_closed", reason="session_closed")
        try:
            async with self.lease.gate.hold(caller=self._caller(), kind="exclusive"):
                return await grade_shared(self.sandbox, self.harbor_task, self.settings.grading)
        except EnvBusy as error:
            return Outcome.infra("env_busy", reason="env_busy", metadata={"detail": str(error)})
        except GateClosed:
            return Outcome.infra("session_closed", reason="session_closed")
        except Exception as error:
            logger.exception("grading task %s failed", self.task.id)
            kind = f"unexpected:{type(error).__name__}"
            return Outcome.infra(kind, reason=kind, metadata={"detail": str(error)[:500]})

    async def run_solution(self) -> ExecResult:
        """Runs the task's reference solution as an agent would. Raises EnvSetupError when there is none or it cannot start."""
        if not self.harbor_task.has_solution:
            raise EnvSetupError("env_config", f"task {self.task.id} has no solution/solve.sh")
        try:
            env = resolve_env(self.harbor_task.solution_env, os.environ)
        except KeyError as error:
            raise EnvSetupError("env_config", f"[solution].env needs {error.args[0]}, which is unset here") from None

        async def solve() -> ExecResult:
            await self.sandbox.upload(self.harbor_task.directory / "solution", "/solution")
            return await self.sandbox.exec(["bash", "/solution/solve.sh"], env=env, timeout_s=self.settings.agent_timeout_s)

        try:
            return await self._turn(solve, "serial")
        except (OSError, EnvBusy, GateClosed) as error:
            raise EnvSetupError("env_setup", f"the solution did not run: {error}") from error

    async def fork(self, mode: ForkMode = "shared", *, task: Task | None = None) -> HarborSession:
        """`shared`: another view of this sandbox. `copy`: its files in a sandbox of their own. `fresh`: the task anew.

        Raises EnvSetupError.
        """
        child = task or self.task
        if self._closed:
            raise EnvSetupError("session_closed", "the session is closed")
        if mode == "fresh":
            return await self.opener.open(child, rollout_id=self.rollout_id, needs=self.needs)
        if mode == "copy":
            return await self.opener.restore(self, child)
        return HarborSession(
            child,
            self.harbor_task,
            self.rollout_id,
            self.needs,
            self.spec,
            self.provider,
            self.lease,
            self.settings,
            self.opener,
        )

    async def close(self) -> None:
        """Gives the view back; the last view's close stops the sandbox."""
        if self._closed:
            return
        self._closed = True
        await self.lease.leave()

    async def _turn(self, work: Callable[[], Awaitable[T]], kind: CallClass) -> T:
        if self._closed:
            raise GateClosed("the session is closed")
        return await self.lease.gate.run(work, caller=self._caller(), kind=kind)

    def _caller(self) -> str:
        return current_caller() or self.view
