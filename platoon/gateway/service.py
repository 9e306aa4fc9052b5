"""The model gateway: policies, agents and their calls. The only path from an agent to a model.

    gateway = ModelGateway({"main": runtime})
    agent = gateway.open_agent(rollout_id="task-1", role="policy", policy="main", max_steps=10)
    reply = await gateway.call(agent, ChatRequest([{"role": "user", "content": "hi"}]))
    gateway.close_rollout("task-1")

One object serves all rollouts of a process; several policies are the base case. Nothing here knows HTTP.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Protocol

from platoon.core.tools import ToolAccess
from platoon.errors import ConfigError
from platoon.gateway.admission import admit
from platoon.gateway.agents import AgentIdentity, AgentLimits, AgentRecord, SamplingPrecedence
from platoon.gateway.calls import PreparedCall, budget_stop, prepare_call, run_call
from platoon.gateway.errors import AgentClosedError, GatewayShutDownError, UnknownAgentError
from platoon.gateway.requests import ChatRequest, ChatResponse
from platoon.gateway.seeds import SeedKey
from platoon.sampling.model_spec import SamplingSettings
from platoon.sampling.policy import PolicyRuntime

CLOSED_KEYS_REMEMBERED = 65_536


def _fingerprint(secret: str) -> str:
    """Keys are looked up by their digest: how long that takes says nothing of how much of a key was right."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class HttpFace(Protocol):
    """What serves a gateway over HTTP; `server.acquire` puts it in place."""

    async def stop(self) -> None: ...


class ModelGateway:
    """policies: by id. Used from one event loop; `shut_down` may be called from there at any time, `close` at the end."""

    def __init__(self, policies: Mapping[str, PolicyRuntime]) -> None:
        self._policies = dict(policies)
        self._agents: dict[str, AgentRecord] = {}
        self._rollouts: dict[str, list[AgentRecord]] = {}
        self._closed_keys: OrderedDict[str, None] = OrderedDict()
        self._stopped = False
        self.http: HttpFace | None = None

    @property
    def policies(self) -> Mapping[str, PolicyRuntime]:
        return self._policies

    def serve_policies(self, policies: Mapping[str, PolicyRuntime]) -> None:
        """Adds or replaces policies; agents that are open keep their policy's name and get its new runtime at the next call."""
        self._policies.update(policies)

    def runtime(self, agent: AgentRecord) -> PolicyRuntime:
        return self._policies[agent.identity.policy]

    def open_agent(
        self,
        *,
        rollout_id: str,
        role: str = "policy",
        policy: str = "main",
        parent: AgentRecord | None = None,
        max_steps: int | None = None,
        call_cap: int | None = None,
        sampling: SamplingSettings | None = None,
        sampling_precedence: SamplingPrecedence = "request",
        seed_key: SeedKey | None = None,
        policy_only: bool = False,
        judges: bool = True,
        tool_access: ToolAccess = "full",
        goal: str | None = None,
    ) -> AgentRecord:
        """An open agent; its policy is fixed for life. Raises GatewayShutDownError, or ConfigError for an unknown policy."""
        if self._stopped:
            raise GatewayShutDownError("the gateway is shut down")
        if policy not in self._policies:
            raise ConfigError(f"policy {policy!r} of role {role!r} is none of {', '.join(sorted(self._policies))}")
        if parent is not None and (parent.closed or parent.identity.rollout_id != rollout_id):
            raise AgentClosedError("the parent is closed or of another rollout")
        identity = AgentIdentity.create(rollout_id, role, policy, parent=parent, goal=goal)
        limits = AgentLimits(max_steps, call_cap, sampling, sampling_precedence, seed_key, policy_only, judges, tool_access)
        agent = AgentRecord(identity, limits)
        if parent is not None:
            parent.children += 1
            agent.tools = parent.tools
        self._agents[_fingerprint(identity.secret)] = agent
        self._rollouts.setdefault(rollout_id, []).append(agent)
        return agent

    def agents(self, rollout_id: str) -> list[AgentRecord]:
        """The rollout's agents in the order they opened, closed ones included."""
        return list(self._rollouts.get(rollout_id, ()))

    def authenticate(self, secret: str, rollout_id: str | None = None) -> AgentRecord:
        """The agent of a key.

        Raises UnknownAgentError for a key that is none or another rollout's, AgentClosedError when its agent closed.
        """
        key = _fingerprint(secret)
        agent = self._agents.get(key)
        if agent is None:
            if key in self._closed_keys:
                raise AgentClosedError("the agent's rollout is over")
            raise UnknownAgentError("no agent has this key")
        if rollout_id is not None and agent.identity.rollout_id != rollout_id:
            raise UnknownAgentError("no agent of this rollout has this key")
        return agent

    async def begin_call(self, agent: AgentRecord, request: ChatRequest) -> PreparedCall | ChatResponse:
        """Admits and prepares a call. Its step is reserved before anything awaits. A budget stop is the reply."""
        if self._stopped:
            raise GatewayShutDownError("the gateway is shut down")
        ticket = admit(agent, request.kind)
        runtime = self.runtime(agent)
        return budget_stop(ticket, runtime) if ticket.budget_stop else await prepare_call(ticket, request, runtime)

    async def call(self, agent: AgentRecord, request: ChatRequest) -> ChatResponse:
        """One recorded call. Raises GatewayError, `errors.ServiceError`, or the cancellation."""
        begun = await self.begin_call(agent, request)
        return begun if isinstance(begun, ChatResponse) else await run_call(begun)

    def close_agent(self, agent: AgentRecord) -> None:
        """Revokes the key; a call under way records nothing. Idempotent."""
        agent.state = "closed"
        key = _fingerprint(agent.identity.secret)
        if self._agents.pop(key, None) is not None:
            self._closed_keys[key] = None
            while len(self._closed_keys) > CLOSED_KEYS_REMEMBERED:
                self._closed_keys.popitem(last=False)

    def close_rollout(self, rollout_id: str) -> list[AgentRecord]:
        """Closes and forgets the rollout's agents; returns them in the order they opened."""
        agents = self._rollouts.pop(rollout_id, [])
        for agent in agents:
            self.close_agent(agent)
        return agents

    def shut_down(self) -> None:
        """Closes every agent and refuses new ones; every later call fails with GatewayShutDownError."""
        self._stopped = True
        for agents in self._rollouts.values():
            for agent in agents:
                self.close_agent(agent)

    async def close(self) -> None:
        """`shut_down`, and the end of the HTTP server if one was started. Idempotent."""
        self.shut_down()
        http, self.http = self.http, None
        if http is not None:
            await http.stop()
