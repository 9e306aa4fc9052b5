"""`platoon-noop`: does nothing and says it is done; what is graded is the task as it starts."""

from __future__ import annotations

from platoon.harness.api import AgentContext, AgentResult
from platoon.harness.registry import harness


@harness("platoon-noop")
async def noop(ctx: AgentContext) -> AgentResult:
    return AgentResult("completed")
