"""What the end of an agent's run means, as one pure function for every kind of harness.

A fault is never a reward of 0: only what is graded can be scored, and what cannot be graded says why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from platoon.core.outcome import Outcome
from platoon.episodes.route import HarnessExit, OverflowRule
from platoon.gateway.agents import AgentLog
from platoon.harness.api import AgentResult
from platoon.harness.errors import HarnessConfigError, HarnessSetupError

FAILED_KINDS = {"setup_failed": "harness_setup", "config_failed": "harness_config"}


@dataclass(frozen=True)
class RunEnd:
    """How a run ended: with a result, or in one of the ways in which there is none. detail: for a person."""

    kind: Literal["result", "setup_failed", "config_failed", "unexpected"]
    result: AgentResult | None = None
    error_type: str = ""
    detail: str = ""

    @classmethod
    def of_error(cls, error: Exception) -> RunEnd:
        if isinstance(error, HarnessSetupError):
            return cls("setup_failed", detail=str(error))
        if isinstance(error, HarnessConfigError):
            return cls("config_failed", detail=str(error))
        return cls("unexpected", error_type=type(error).__name__, detail=str(error))


@dataclass(frozen=True)
class Counters:
    """What the gateway saw of the agent."""

    context_overflows: int = 0
    gateway_errors: int = 0
    budget_stops: int = 0
    last_error: str | None = None

    @classmethod
    def of(cls, log: AgentLog) -> Counters:
        return cls(log.context_overflows, log.gateway_errors, log.budget_stops, log.last_error)


@dataclass(frozen=True)
class Grade:
    """The run is graded. reason: replaces a scored outcome's own. detail: what exactly happened, for a person."""

    reason: str | None = None
    detail: str = ""


def judge_run(end: RunEnd, counters: Counters, on_exit: HarnessExit, on_overflow: OverflowRule) -> Grade | Outcome:
    """Graded, or the outcome of a run that is not."""
    result = end.result
    if end.kind != "result" or result is None:
        return _infra(FAILED_KINDS.get(end.kind, f"unexpected:{end.error_type}"), end.detail)
    if result.status == "timeout":
        # An agent that tries a refused call again and again ends so: what the gateway said is the cause.
        said = counters.last_error or ""
        timeout = Outcome("timeout", reason="agent_timeout", metadata=_detail(said))
        return Grade("agent_timeout", said) if on_exit.timeout == "grade" else timeout
    if result.status == "cancelled":
        return Outcome("cancelled", reason="agent_cancelled")
    if result.status in ("completed", "limit"):
        return Grade("budget" if result.status == "completed" and counters.budget_stops else None)
    if counters.context_overflows:
        overflow = Grade("context_overflow", counters.last_error or "")
        return overflow if on_overflow == "grade" else _infra("context_overflow", result.error or "")
    return _judge_crash(result, counters, on_exit)


def _judge_crash(result: AgentResult, counters: Counters, on_exit: HarnessExit) -> Grade | Outcome:
    own, gateway = result.error or "", counters.last_error or ""
    detail = own if gateway in own else "; ".join(part for part in (own, gateway) if part)
    if on_exit.crash == "grade":
        return Grade("harness_crash", detail)
    if on_exit.crash == "grade_if_gateway_clean":
        return _infra("harness_crash_gateway", detail) if counters.gateway_errors else Grade("harness_crash", detail)
    return _infra("harness_crash", detail)


def with_reason(outcome: Outcome, grade: Grade) -> Outcome:
    """A scored outcome under the rollout's reason; its own goes to `metadata["grade_reason"]`. Others stay as they are."""
    if grade.reason is None or outcome.status != "scored":
        return outcome
    metadata: dict[str, Any] = {**_detail(grade.detail), **outcome.metadata}
    if outcome.reason is not None:
        metadata["grade_reason"] = outcome.reason
    return replace(outcome, reason=grade.reason, metadata=metadata)


def _infra(kind: str, detail: str) -> Outcome:
    return Outcome.infra(kind, metadata=_detail(detail))


def _detail(text: str) -> dict[str, Any]:
    return {"detail": text[:2000]} if text else {}
