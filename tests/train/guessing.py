"""An environment whose reward is a digest of what the agent said, and the harness that plays it; named as `module:name`."""

from __future__ import annotations

import hashlib
import json

from platoon.core.outcome import Outcome
from platoon.core.task import Task
from platoon.harness.api import AgentContext, AgentResult
from platoon.harness.registry import harness
from platoon.testing.memory_service import MemoryService, MemorySession


def paid(session: MemorySession) -> Outcome:
    said = json.dumps([arguments for _, arguments in session.calls], sort_keys=True)
    return Outcome("scored", {"reward": hashlib.sha256(said.encode()).digest()[0] / 255})


def service() -> MemoryService:
    tasks = {name: Task(name, goal=f"guess {name}") for name in ("one", "two", "three", "four", "five")}
    return MemoryService(tasks, paid, {"guess": lambda arguments: "noted"})


@harness("guess")
async def guess(ctx: AgentContext) -> AgentResult:
    """Two turns, each said to the environment."""
    messages = [{"role": "user", "content": ctx.instruction}]
    for _ in range(2):
        reply = await ctx.chat(messages)
        content = str(reply.message.get("content") or "")
        await ctx.call_tool("guess", {"text": content})
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": "again"}]
    return AgentResult()


@harness("ask_others")
async def ask_others(ctx: AgentContext) -> AgentResult:
    """A turn, then one of a child in each role."""
    reply = await ctx.chat([{"role": "user", "content": ctx.instruction}])
    await ctx.call_tool("guess", {"text": str(reply.message.get("content") or "")})
    if ctx.depth == 0:
        for role in ("helper", "judge"):
            asked = await ctx.agents.spawn(f"{role}, guess", role=role, max_steps=1)
            assert asked.ok, asked.message
    return AgentResult()
