"""Lets a call in, or says why not; reserves its step before anything can await."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from platoon.core.call_kinds import CALL_KINDS, CallKind
from platoon.gateway.agents import AgentRecord
from platoon.gateway.errors import AgentClosedError, AgentLimitError, CallKindRefusedError, InvalidRequestError, JudgesOffError

MAX_BUDGET_STOPS = 8


@dataclass
class Ticket:
    """A call that was let in. index: its place among the agent's admitted calls. budget_stop: answer without sampling."""

    agent: AgentRecord
    kind: CallKind
    index: int
    budget_stop: bool = False
    state: Literal["held", "recorded", "given_back"] = "held"

    def record(self) -> None:
        """The step is taken. Raises AgentClosedError when the agent was closed meanwhile: nothing may be recorded then."""
        if self.agent.closed:
            self.give_back()
            raise AgentClosedError("the agent was closed while its call was under way")
        self._end("recorded")

    def give_back(self) -> None:
        """The call came to nothing; idempotent, and without effect after `record`."""
        if self.state == "held":
            self._end("given_back")

    def _end(self, state: Literal["recorded", "given_back"]) -> None:
        if self.kind == "policy" and not self.budget_stop:
            self.agent.tally.in_flight -= 1
            self.agent.tally.recorded += state == "recorded"
        self.state = state


def admit(agent: AgentRecord, kind: str) -> Ticket:
    """A ticket for one call of `agent`. Raises the GatewayError that says why the agent may not make it."""
    if kind not in CALL_KINDS:
        raise InvalidRequestError(f"call kind {kind!r} is none of {', '.join(CALL_KINDS)}")
    if agent.closed:
        raise AgentClosedError("the agent's rollout is over")
    limits = agent.limits
    if kind == "judge" and not limits.judges:
        refused = agent.log.misc.setdefault("judges_refused", {"count": 0, "first": "a judge call"})
        refused["count"] += 1
        raise JudgesOffError("judges are off for this rollout")
    if limits.policy_only and (kind == "judge" or (kind == "aux" and limits.call_cap is not None)):
        raise CallKindRefusedError(f"this agent's key is within reach of the policy's code, so it makes no {kind} calls")
    ticket = Ticket(agent, kind, agent.log.admitted)
    if kind == "policy" and limits.call_cap is not None and agent.tally.used >= limits.call_cap:
        if agent.log.budget_stops >= MAX_BUDGET_STOPS:
            raise AgentLimitError(f"the budget of {limits.call_cap} steps is used up")
        agent.log.budget_stops += 1
        ticket.budget_stop = True
        return ticket
    agent.log.admitted += 1
    if kind == "policy":
        agent.tally.in_flight += 1
    return ticket
