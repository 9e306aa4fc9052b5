"""What the gateway keeps of an agent: who it is, what it may do, and what it did.

Identity and limits are fixed when an agent opens; the log grows with its calls. A call holds a ticket from admission to its end:
the step is counted before anything awaits, so a budget holds under any interleaving.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from platoon.core.call_kinds import CallKind
from platoon.core.outcome import Outcome
from platoon.core.task import Task
from platoon.core.tools import ToolAccess
from platoon.gateway.seeds import SeedKey
from platoon.rows.prompts import PromptHistory
from platoon.sampling.model_spec import SamplingSettings

SamplingPrecedence = Literal["request", "config"]
AgentState = Literal["open", "closed"]


@dataclass(frozen=True)
class AgentIdentity:
    """secret: 256 bits, the agent's key. path: `0` for the root, `0.1` for its second child.

    fork_step: how many calls the parent had made when this agent opened.
    """

    agent_id: str
    rollout_id: str
    trajectory_id: str
    role: str
    policy: str
    depth: int
    path: str
    parent_id: str | None
    fork_step: int
    goal: str | None
    secret: str = field(repr=False)

    @classmethod
    def create(
        cls, rollout_id: str, role: str, policy: str, *, parent: AgentRecord | None = None, goal: str | None = None
    ) -> AgentIdentity:
        path = "0" if parent is None else f"{parent.identity.path}.{parent.children}"
        return cls(
            agent_id=uuid.uuid4().hex,
            rollout_id=rollout_id,
            trajectory_id=uuid.uuid4().hex,
            role=role,
            policy=policy,
            depth=0 if parent is None else parent.identity.depth + 1,
            path=path,
            parent_id=None if parent is None else parent.identity.agent_id,
            fork_step=0 if parent is None else len(parent.log.calls),
            goal=goal,
            secret=secrets.token_urlsafe(32),
        )


@dataclass(frozen=True)
class AgentLimits:
    """max_steps: what the agent may plan with. call_cap: policy calls the gateway answers, shared with minted agents.

    policy_only: the key is where code of the policy can read it, so it may make no other kind of call.
    """

    max_steps: int | None = None
    call_cap: int | None = None
    sampling: SamplingSettings | None = None
    sampling_precedence: SamplingPrecedence = "request"
    seed_key: SeedKey | None = None
    policy_only: bool = False
    judges: bool = True
    tool_access: ToolAccess = "full"


@dataclass(frozen=True, eq=False)
class Interaction:
    """One recorded call, exactly: prompt_T u32, tokens_T u32 with the end token, logprobs_T f32.

    policy, version: what sampled it. routing_id: the service's handle, or None.
    """

    call_id: str
    kind: CallKind
    prompt_T: npt.NDArray[np.uint32]
    tokens_T: npt.NDArray[np.uint32]
    logprobs_T: npt.NDArray[np.float32]
    policy: str = "main"
    version: int = -1
    routing_id: int | None = None


@dataclass(frozen=True)
class CallRecord:
    """What a step of the trajectory tells of a call.

    span: start and end, `time.perf_counter`. generation: what was sampled and parsed, counted. observed: the request's messages
    since the reply before: the instruction, results of tools.
    """

    call_id: str
    kind: CallKind
    model: str
    message: Mapping[str, Any]
    usage: Mapping[str, int]
    generation: Mapping[str, Any]
    span: tuple[float, float]
    observed: Sequence[Mapping[str, Any]] = ()


@dataclass
class CallTally:
    """Policy calls recorded and in flight, shared by an agent and those minted from its key."""

    recorded: int = 0
    in_flight: int = 0

    @property
    def used(self) -> int:
        return self.recorded + self.in_flight


@dataclass
class AgentLog:
    """What an agent did. admitted: calls let in so far, the index of the next. prompts: those of policy calls, kept once."""

    calls: list[CallRecord] = field(default_factory=list)
    interactions: dict[str, Interaction] = field(default_factory=dict)
    prompts: PromptHistory = field(default_factory=PromptHistory)
    step_misc: dict[str, dict[str, Any]] = field(default_factory=dict)
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    misc: dict[str, Any] = field(default_factory=dict)
    admitted: int = 0
    budget_stops: int = 0
    context_overflows: int = 0
    gateway_errors: int = 0
    model_seconds: float = 0.0
    last_error: str | None = None

    @property
    def steps(self) -> int:
        """Recorded policy calls."""
        return sum(call.kind == "policy" for call in self.calls)


@dataclass
class AgentRecord:
    """One agent of a rollout. task, result, outcome: set by who runs it, read by the trace."""

    identity: AgentIdentity
    limits: AgentLimits
    tally: CallTally = field(default_factory=CallTally)
    log: AgentLog = field(default_factory=AgentLog)
    state: AgentState = "open"
    children: int = 0
    task: Task | None = None
    tools: Any = None
    result_status: str | None = None
    result_error: str | None = None
    final_message: str | None = None
    outcome: Outcome | None = None
    opened_at: float = field(default_factory=time.perf_counter)

    @property
    def agent_id(self) -> str:
        return self.identity.agent_id

    @property
    def closed(self) -> bool:
        return self.state == "closed"

    def last_call_id(self) -> str | None:
        return self.log.calls[-1].call_id if self.log.calls else None
