"""The one way from an agent to its environment's tools: what it sees, and what a call of it does.

Access is decided where a call runs, by the same function that filters listings; a listing may be cached, visibility never is.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from platoon.core.protocols import EnvSession
from platoon.core.tools import ToolResult, ToolSpec
from platoon.gateway.agents import AgentRecord

RECORDED_TEXT_CHARACTERS = 2000


def is_visible(agent: AgentRecord, tool: ToolSpec) -> bool:
    """`read_only` agents see tools that never change state, `no_terminal` ones all but those that end the episode."""
    access = agent.limits.tool_access
    return access == "full" or (access == "no_terminal" and not tool.terminal) or (access == "read_only" and tool.read_only)


class AgentTools:
    """Tools of one session. Calls are made one at a time unless the session orders them itself (`manages_concurrency`)."""

    def __init__(self, session: EnvSession) -> None:
        self._session = session
        self._listing: Sequence[ToolSpec] | None = None
        self._turn = asyncio.Lock()

    async def visible(self, agent: AgentRecord) -> list[ToolSpec]:
        if self._listing is None:
            self._listing = list(await self._session.tools())
        return [tool for tool in self._listing if is_visible(agent, tool)]

    async def call(self, agent: AgentRecord, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """The result; a tool the agent cannot see, or one that raises, gives an error result."""
        if name not in {tool.name for tool in await self.visible(agent)}:
            return ToolResult.text(f"there is no tool {name!r}", is_error=True)
        started, after = time.perf_counter(), agent.last_call_id()
        if getattr(self._session, "manages_concurrency", False):
            result = await self._run(name, arguments)
        else:
            async with self._turn:
                result = await self._run(name, arguments)
        agent.log.tool_calls.append(
            {
                "event_id": f"tool-{uuid.uuid4().hex}",
                "name": name,
                "arguments": dict(arguments),
                "text": result.as_text()[:RECORDED_TEXT_CHARACTERS],
                "is_error": result.is_error,
                "finished": result.finished,
                "reward": result.reward,
                "after_call_id": after,
                "started_at": started,
                "ended_at": time.perf_counter(),
            }
        )
        return result

    async def _run(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        try:
            return await self._session.call_tool(name, arguments)
        except Exception as error:  # because a tool that raises is the model's to read, never the end of the rollout
            return ToolResult.text(f"{type(error).__name__}: {error}", is_error=True)
