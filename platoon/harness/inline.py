"""Runs a harness function on this event loop: its context, its deadline, and what its end means."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from platoon.core.call_kinds import CALL_KINDS
from platoon.core.gate import on_behalf_of
from platoon.core.tools import ToolResult, ToolSpec
from platoon.gateway.dialects.openai_chat import parse_request
from platoon.gateway.errors import InvalidRequestError
from platoon.gateway.tools import AgentTools
from platoon.harness.api import AgentAPI, AgentResult, Budget, ChatReply, ModelEndpoint
from platoon.harness.errors import HarnessConfigError, HarnessSetupError
from platoon.harness.registry import FunctionHarness
from platoon.harness.subagents import AgentTree, ChildRun, StepBudget, Subagents


class InlineContext:
    """`api.AgentContext` over the gateway in this process."""

    def __init__(self, tree: AgentTree, run: ChildRun, endpoint: ModelEndpoint | None = None) -> None:
        agent = run.agent
        self._gateway, self.agent = tree.gateway, agent
        self._tools: AgentTools = agent.tools or AgentTools(run.session)
        identity, limits = agent.identity, agent.limits
        self.agent_id, self.trajectory_id = identity.agent_id, identity.trajectory_id
        self.parent_agent_id, self.depth, self.role = identity.parent_id, identity.depth, identity.role
        self.task, self.session, self.instruction = run.task, run.session, run.task.goal or run.session.instruction
        self.max_steps = limits.max_steps
        self.access: str = limits.tool_access
        self.options: Mapping[str, Any] = MappingProxyType(dict(run.options))
        self.endpoint = endpoint
        budget = StepBudget(agent, tree)
        self.budget: Budget = budget
        self.children = Subagents(tree, run, budget, lambda child: run_function(child.harness, InlineContext(tree, child), None))
        self.agents: AgentAPI = self.children

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Any = None, kind: str = "policy", **sampling: Any
    ) -> ChatReply:
        if kind not in CALL_KINDS:
            raise InvalidRequestError(f"call kind {kind!r} is none of {', '.join(CALL_KINDS)}")
        body = {**sampling, "messages": list(messages), "tools": tools}
        reply = await self._gateway.call(self.agent, parse_request(body, kind))
        return ChatReply(reply.call_id, reply.message(), reply.finish_reason)

    async def list_tools(self) -> list[ToolSpec]:
        return await self._tools.visible(self.agent)

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        return await self._tools.call(self.agent, name, arguments)

    def annotate(self, **misc: Any) -> None:
        self.agent.log.misc.update(misc)

    def annotate_step(self, **misc: Any) -> None:
        call_id = self.agent.last_call_id()
        if call_id is None:
            raise RuntimeError("annotate_step needs a recorded call")
        self.agent.log.step_misc.setdefault(call_id, {}).update(misc)


async def run_function(harness: FunctionHarness, ctx: InlineContext, timeout_s: float | None) -> AgentResult:
    """One run to its end, its children's included. Raises HarnessSetupError and HarnessConfigError as the harness does.

    A cancellation is raised again once children have unwound. Everything else is a result: a deadline is `timeout`, an exception
    or a wrong return value is `error`. Children that outlive the deadline are cancelled; the harness's own result stands.
    """
    started = time.perf_counter()
    loop = asyncio.get_running_loop()
    ends_at = None if timeout_s is None else loop.time() + timeout_s
    try:
        result = await _harness_result(harness, ctx, ends_at)
        if result.status != "timeout":
            with suppress(TimeoutError):
                async with asyncio.timeout_at(ends_at):
                    await ctx.children.wait_children()
        return result
    finally:
        await ctx.children.cancel_children()
        ctx.agent.log.misc["execution_span"] = [started, time.perf_counter()]


async def _harness_result(harness: FunctionHarness, ctx: InlineContext, ends_at: float | None) -> AgentResult:
    try:
        with on_behalf_of(ctx.agent_id):
            async with asyncio.timeout_at(ends_at) as deadline:
                result: Any = await harness.function(ctx)
    except (HarnessSetupError, HarnessConfigError):
        raise
    except TimeoutError as error:
        return AgentResult("timeout", error=None if deadline.expired() else f"TimeoutError: {error}")
    except Exception as error:
        return AgentResult("error", error=f"{type(error).__name__}: {error}")
    if not isinstance(result, AgentResult):
        return AgentResult("error", error=f"the harness returned {type(result).__name__}, not an AgentResult")
    return result
