"""`platoon-oracle`: runs the task's reference solution; shows that a task can be solved and that its grader sees it."""

from __future__ import annotations

from platoon.harness.api import AgentContext, AgentResult
from platoon.harness.errors import HarnessConfigError
from platoon.harness.registry import harness

TAIL_CHARACTERS = 2000


@harness("platoon-oracle")
async def oracle(ctx: AgentContext) -> AgentResult:
    """Records `misc["oracle"]`: exit_code, timed_out, output (its tail). Never calls the model."""
    run_solution = getattr(ctx.session, "run_solution", None)
    if run_solution is None:
        raise HarnessConfigError("platoon-oracle needs a service whose tasks have reference solutions")
    result = await run_solution()
    output = (result.stdout + result.stderr)[-TAIL_CHARACTERS:]
    ctx.annotate(oracle={"exit_code": result.exit_code, "timed_out": result.timed_out, "output": output})
    return AgentResult("timeout" if result.timed_out else "completed")
