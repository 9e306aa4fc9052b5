"""Agents that agents start: an agent tree over one environment, run by function harnesses on this event loop.

A child plays in a view of its parent's session, samples the policy of its role, and shares the episode's outcome unless its own
run failed. It never raises into its parent: what keeps it from starting is a result too. Steps are budgeted linearly: a child's
steps are its parent's, and while it runs its whole allowance and one step more (the turn that reads its answer) are held back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from platoon.config.text import counted
from platoon.core.protocols import EnvSession, ForkMode
from platoon.core.task import Task
from platoon.core.tools import ToolAccess
from platoon.gateway.agents import AgentRecord
from platoon.gateway.errors import GatewayError
from platoon.gateway.service import ModelGateway
from platoon.gateway.tools import AgentTools
from platoon.harness.api import AgentResult, SubagentLaunchFailure, SubagentResult
from platoon.harness.registry import FunctionHarness, get_harness
from platoon.host.tasks import see_through

log = logging.getLogger(__name__)

ACCESS_ORDER: tuple[ToolAccess, ...] = ("read_only", "no_terminal", "full")
CHILD_MAX_STEPS = 15
CANCEL_GRACE_S = 10.0
CLOSE_TIMEOUT_S = 10.0
FAILED_MESSAGES = {"limit": "The subagent used up its steps.", "timeout": "The subagent ran out of time."}


@dataclass(frozen=True)
class ChildRun:
    """What a child is run with."""

    agent: AgentRecord
    session: EnvSession
    task: Task
    harness: FunctionHarness
    options: Mapping[str, Any]


@dataclass(frozen=True)
class AgentTree:
    """What all agents of an episode share. roles: role -> policy; root_policy: of every other role.

    settle: told of a child's end, decides whether it has an outcome of its own. max_depth: None for no bound.
    """

    gateway: ModelGateway
    root_policy: str
    roles: Mapping[str, str] = field(default_factory=dict)
    settle: Callable[[AgentRecord, AgentResult], None] = lambda agent, result: None
    max_depth: int | None = None
    child_max_steps: int = CHILD_MAX_STEPS
    child_timeout_s: float | None = None

    def descendants(self, agent: AgentRecord) -> list[AgentRecord]:
        prefix = f"{agent.identity.path}."
        return [other for other in self.gateway.agents(agent.identity.rollout_id) if other.identity.path.startswith(prefix)]


class StepBudget:
    """Steps of one agent and of everything below it. Without `max_steps` there is no bound."""

    def __init__(self, agent: AgentRecord, tree: AgentTree) -> None:
        self._agent, self._tree = agent, tree
        self._held: dict[str, int] = {}

    def used(self) -> int:
        return self._agent.log.steps + sum(other.log.steps for other in self._tree.descendants(self._agent))

    def remaining(self) -> int | None:
        limit = self._agent.limits.max_steps
        if limit is None:
            return None
        # Steps of running children are within what is held back for them.
        running = sum(
            other.log.steps
            for other in self._tree.descendants(self._agent)
            if any(other.identity.path == path or other.identity.path.startswith(f"{path}.") for path in self._held)
        )
        return max(0, limit - (self.used() - running) - sum(self._held.values()))

    def hold(self, child: AgentRecord) -> None:
        self._held[child.identity.path] = (child.limits.max_steps or 0) + 1

    def release(self, child: AgentRecord) -> None:
        self._held.pop(child.identity.path, None)


class Subagents:
    """`api.AgentAPI` of one agent. run_child: runs a child's harness to its end."""

    def __init__(
        self, tree: AgentTree, parent: ChildRun, budget: StepBudget, run_child: Callable[[ChildRun], Awaitable[AgentResult]]
    ) -> None:
        self._tree, self._parent, self._budget, self._run_child = tree, parent, budget, run_child
        self._children: set[asyncio.Task[SubagentResult]] = set()
        self._keep = False
        self._finished = False

    async def spawn(
        self,
        goal: str,
        *,
        harness: str | None = None,
        max_steps: int | None = None,
        fork: ForkMode | None = None,
        access: ToolAccess | None = None,
        role: str = "subagent",
        options: Mapping[str, Any] | None = None,
        task_misc: Mapping[str, Any] | None = None,
    ) -> SubagentResult:
        """Starts a child and waits for its end. Raises TypeError for a harness that is no function, and the cancellation."""
        chosen = self._parent.harness if harness is None else get_harness(harness)
        if not isinstance(chosen, FunctionHarness):
            raise TypeError(f"{harness} is a spec; a subagent needs a function harness")
        inherited = self._parent.options if harness is None else {}
        steps = self._tree.child_max_steps if max_steps is None else max_steps
        if refusal := self._refusal(steps):
            return SubagentResult("", "", goal, SubagentLaunchFailure(refusal))
        try:
            # Everything up to the reservation happens without awaiting, so that two spawns cannot hold the same steps.
            child = self._open(role, steps, access, goal)
        except (GatewayError, ValueError) as error:
            return SubagentResult("", "", goal, SubagentLaunchFailure(str(error)))
        task = self._parent.task.fork(goal, steps, task_misc)
        playing = asyncio.ensure_future(self._play(child, chosen, dict(options or inherited), task, fork or "shared"))
        self._children.add(playing)
        playing.add_done_callback(self._children.discard)
        try:
            return await asyncio.shield(playing)
        except asyncio.CancelledError:
            if not self._keep:
                playing.cancel()
                await see_through(playing, CANCEL_GRACE_S)
            raise

    def keep_children(self) -> None:
        """A cancelled spawn no longer cancels its child; the episode still waits for it."""
        self._keep = True

    async def wait_children(self) -> None:
        """Until no child runs; one that is scheduled but has not begun registers first."""
        await asyncio.sleep(0)
        while self._children:
            await asyncio.wait(set(self._children))
            await asyncio.sleep(0)

    async def cancel_children(self) -> None:
        """Cancels what runs and waits a bounded time for it to unwind; later spawns are refused."""
        self.finish()
        running = set(self._children)
        for playing in running:
            playing.cancel()
        if running:
            await see_through(asyncio.wait(running), CANCEL_GRACE_S)

    def finish(self) -> None:
        self._finished = True

    def _refusal(self, steps: int) -> str | None:
        if self._finished:
            return "the agent has finished"
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            return f"max_steps must be a positive whole number, not {steps!r}"
        if self._tree.max_depth is not None and self._parent.agent.identity.depth >= self._tree.max_depth:
            return f"agents may not go deeper than {self._tree.max_depth}"
        remaining = self._budget.remaining()
        if remaining is not None and steps + 1 > remaining:
            return f"{counted(remaining, 'step')} left, a subagent of {steps} needs {steps + 1}"
        return None

    def _open(self, role: str, steps: int, access: ToolAccess | None, goal: str) -> AgentRecord:
        parent, limits = self._parent.agent, self._parent.agent.limits
        level = min(ACCESS_ORDER.index(access or limits.tool_access), ACCESS_ORDER.index(limits.tool_access))
        child = self._tree.gateway.open_agent(
            rollout_id=parent.identity.rollout_id,
            role=role,
            policy=self._tree.roles.get(role, self._tree.root_policy),
            parent=parent,
            max_steps=steps,
            sampling=limits.sampling,
            sampling_precedence=limits.sampling_precedence,
            seed_key=limits.seed_key,
            judges=limits.judges,
            tool_access=ACCESS_ORDER[level],
            goal=goal,
        )
        self._budget.hold(child)
        return child

    async def _play(
        self, child: AgentRecord, harness: FunctionHarness, options: Mapping[str, Any], task: Task, fork: ForkMode
    ) -> SubagentResult:
        """The child's whole life; whatever ends it, its steps are given back and its view is closed."""
        spawned_at, goal = self._parent.agent.last_call_id(), task.goal or ""
        session: EnvSession | None = None
        result = AgentResult("cancelled")
        child.task = task
        try:
            session = await self._parent.session.fork(fork, task=task)
            child.tools = AgentTools(session)
            async with asyncio.timeout(self._tree.child_timeout_s):
                result = await self._run_child(ChildRun(child, session, task, harness, options))
        except TimeoutError:
            result = AgentResult("timeout", error="the subagent ran out of time")
        except Exception as error:
            result = AgentResult("error", error=f"{type(error).__name__}: {error}")
        finally:
            self._budget.release(child)
            child.result_status, child.result_error, child.final_message = result.status, result.error, result.final_message
            self._tree.settle(child, result)
            if session is not None:
                await see_through(_close(session), CLOSE_TIMEOUT_S)
        self._credit(spawned_at)
        message = result.final_message or FAILED_MESSAGES.get(result.status) or result.error or ""
        return SubagentResult(child.agent_id, child.identity.trajectory_id, goal, message, result, child.outcome)

    def _credit(self, call_id: str | None) -> None:
        if call_id is None:
            return
        notes = self._parent.agent.log.step_misc.setdefault(call_id, {}).setdefault("reward_misc", {})
        notes["reward/subagent_launched"] = notes.get("reward/subagent_launched", 0) + 1


async def _close(session: EnvSession) -> None:
    try:
        await session.close()
    except Exception:
        log.exception("a subagent's view of its session did not close")
