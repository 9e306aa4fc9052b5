"""What a harness function is given and gives back. Only the standard library is imported at run time, so that harness code can
import these types without the trainer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from platoon.core.task import Task
    from platoon.core.tools import ToolResult, ToolSpec

AgentStatus = Literal["completed", "limit", "timeout", "error", "cancelled"]
LIMIT_MESSAGE = "The agent used up its step budget before it finished."


@dataclass(frozen=True)
class AgentResult:
    status: AgentStatus = "completed"
    final_message: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class ModelEndpoint:
    """base_url: ends in /v1, with the key in its path. api_key: for clients that send it in a header."""

    base_url: str
    api_key: str = field(repr=False)
    model: str = "policy"

    def headers(self, kind: str = "policy") -> dict[str, str]:
        return {"X-Platoon-Call-Kind": kind}


@dataclass(frozen=True)
class ChatReply:
    """message: the assistant message, as it goes back into `messages`."""

    call_id: str
    message: Mapping[str, Any]
    finish_reason: str

    @property
    def text(self) -> str:
        return self.message.get("content") or ""

    @property
    def reasoning(self) -> str:
        return self.message.get("reasoning_content") or ""

    @property
    def tool_calls(self) -> Sequence[Mapping[str, Any]]:
        return self.message.get("tool_calls") or ()


class SubagentLaunchFailure(str):
    """Why no child was started; the message of a SubagentResult."""

    __slots__ = ()


@dataclass(frozen=True)
class SubagentResult:
    """What a spawn came to. ids are empty when no child was started."""

    agent_id: str
    trajectory_id: str
    goal: str
    message: str
    result: AgentResult | None = None
    outcome: Any = None

    @property
    def launched(self) -> bool:
        return not isinstance(self.message, SubagentLaunchFailure)

    @property
    def ok(self) -> bool:
        return self.launched and self.result is not None and self.result.status == "completed"


class Budget(Protocol):
    """Steps of this agent; one step is one recorded policy call."""

    def used(self) -> int: ...

    def remaining(self) -> int | None:
        """None without a bound."""
        ...


class AgentAPI(Protocol):
    async def spawn(
        self,
        goal: str,
        *,
        harness: str | None = None,
        max_steps: int | None = None,
        fork: Any = None,
        access: Any = None,
        role: str = "subagent",
        options: Mapping[str, Any] | None = None,
        task_misc: Mapping[str, Any] | None = None,
    ) -> SubagentResult:
        """Starts a child and waits for its end; a child that cannot start is a result whose message says why."""
        ...

    def keep_children(self) -> None:
        """A cancelled spawn no longer cancels its child."""
        ...


class AgentContext(Protocol):
    """One agent's run, as its harness sees it. endpoint: None where the gateway is not served over HTTP."""

    agent_id: str
    trajectory_id: str
    parent_agent_id: str | None
    depth: int
    role: str
    task: Task
    session: Any
    instruction: str
    max_steps: int | None
    access: str
    options: Mapping[str, Any]
    endpoint: ModelEndpoint | None
    budget: Budget
    agents: AgentAPI

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Any = None, kind: str = "policy", **sampling: Any
    ) -> ChatReply: ...

    async def list_tools(self) -> list[ToolSpec]: ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolResult: ...

    def annotate(self, **misc: Any) -> None: ...

    def annotate_step(self, **misc: Any) -> None: ...


def out_of_steps(ctx: AgentContext, needed: int = 1) -> bool:
    """Whether fewer than `needed` steps are left."""
    remaining = ctx.budget.remaining()
    return remaining is not None and remaining < needed


def terminal_tool(tools: Sequence[ToolSpec]) -> ToolSpec | None:
    """The first tool that ends the episode."""
    return next((tool for tool in tools if tool.terminal), None)


def terminal_arguments(tool: ToolSpec, message: str) -> dict[str, Any]:
    """`message` as the first property of the tool's schema; {} when it has none."""
    names = list(tool.input_schema.get("properties", {}))
    return {names[0]: message} if names else {}
