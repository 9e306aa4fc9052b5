"""Runs a harness function on this event loop: its context, its deadline, and what its end means."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from platoon.core.call_kinds import CALL_KINDS
from platoon.core.gate import on_behalf_of
from platoon.core.protocols import EnvSession
from platoon.core.task import Task
from platoon.core.tools import ToolResult, ToolSpec
from platoon.gateway.agents import AgentRecord
from platoon.gateway.dialects.openai_chat import parse_request
from platoon.gateway.errors import InvalidRequestError
from platoon.gateway.service import ModelGateway
from platoon.gateway.tools import AgentTools
from platoon.harness.api import AgentAPI, AgentResult, Budget, ChatReply, ModelEndpoint, SubagentLaunchFailure, SubagentResult
from platoon.harness.errors import HarnessConfigError, HarnessSetupError
from platoon.harness.registry import FunctionHarness


class StepBudget:
    """Steps of one agent; without `max_steps` there is no bound."""

    def __init__(self, agent: AgentRecord) -> None:
        self._agent = agent

    def used(self) -> int:
        return self._agent.log.steps

    def remaining(self) -> int | None:
        limit = self._agent.limits.max_steps
        return None if limit is None else max(0, limit - self.used())


class NoSubagents:
    """The agent tree has its root only for now: a spawn is refused as a failed launch, never raised."""

    async def spawn(self, goal: str, **settings: Any) -> SubagentResult:
        return SubagentResult("", "", goal, SubagentLaunchFailure("subagents are not available in this version"))

    def keep_children(self) -> None:
        """No children to keep."""


class InlineContext:
    """`api.AgentContext` over the gateway in this process."""

    def __init__(
        self,
        gateway: ModelGateway,
        agent: AgentRecord,
        session: EnvSession,
        task: Task,
        *,
        options: Mapping[str, Any],
        endpoint: ModelEndpoint | None = None,
    ) -> None:
        self._gateway, self._agent = gateway, agent
        self._tools: AgentTools = agent.tools or AgentTools(session)
        identity, limits = agent.identity, agent.limits
        self.agent_id, self.trajectory_id = identity.agent_id, identity.trajectory_id
        self.parent_agent_id, self.depth, self.role = identity.parent_id, identity.depth, identity.role
        self.task, self.session, self.instruction = task, session, session.instruction
        self.max_steps = limits.max_steps
        self.access: str = limits.tool_access
        self.options: Mapping[str, Any] = MappingProxyType(dict(options))
        self.endpoint = endpoint
        self.budget: Budget = StepBudget(agent)
        self.agents: AgentAPI = NoSubagents()

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Any = None, kind: str = "policy", **sampling: Any
    ) -> ChatReply:
        if kind not in CALL_KINDS:
            raise InvalidRequestError(f"call kind {kind!r} is none of {', '.join(CALL_KINDS)}")
        body = {**sampling, "messages": list(messages), "tools": tools}
        reply = await self._gateway.call(self._agent, parse_request(body, kind))
        return ChatReply(reply.call_id, reply.message(), reply.finish_reason)

    async def list_tools(self) -> list[ToolSpec]:
        return await self._tools.visible(self._agent)

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        return await self._tools.call(self._agent, name, arguments)

    def annotate(self, **misc: Any) -> None:
        self._agent.log.misc.update(misc)

    def annotate_step(self, **misc: Any) -> None:
        call_id = self._agent.last_call_id()
        if call_id is None:
            raise RuntimeError("annotate_step needs a recorded call")
        self._agent.log.step_misc.setdefault(call_id, {}).update(misc)


async def run_function(harness: FunctionHarness, ctx: InlineContext, timeout_s: float | None) -> AgentResult:
    """One run to its end. Raises HarnessSetupError and HarnessConfigError as the harness does; a cancellation is re-raised.

    Everything else is a result: a deadline is `timeout`, an exception or a wrong return value is `error`.
    """
    agent = ctx._agent
    started = time.perf_counter()
    try:
        with on_behalf_of(agent.agent_id):
            async with asyncio.timeout(timeout_s) as deadline:
                result: Any = await harness.function(ctx)
    except (HarnessSetupError, HarnessConfigError):
        raise
    except TimeoutError as error:
        status_is_deadline = deadline.expired()
        return AgentResult("timeout", error=None if status_is_deadline else f"TimeoutError: {error}")
    except Exception as error:
        return AgentResult("error", error=f"{type(error).__name__}: {error}")
    finally:
        agent.log.misc["execution_span"] = [started, time.perf_counter()]
    if not isinstance(result, AgentResult):
        return AgentResult("error", error=f"the harness returned {type(result).__name__}, not an AgentResult")
    return result
