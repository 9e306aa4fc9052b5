"""The failure taxonomy as a table: how a run ended, what the gateway saw, what the entry asks for, what becomes of it."""

from __future__ import annotations

from itertools import product

import pytest

from platoon.core.outcome import Outcome
from platoon.episodes.route import HarnessExit
from platoon.episodes.taxonomy import Counters, Grade, RunEnd, judge_run, with_reason
from platoon.harness.api import AgentResult
from platoon.harness.errors import HarnessConfigError, HarnessSetupError

pytestmark = pytest.mark.unit

SETUP, CONFIG = RunEnd.of_error(HarnessSetupError("x")), RunEnd.of_error(HarnessConfigError("x"))
UNEXPECTED = RunEnd.of_error(KeyError("x"))


def ended(status: str) -> RunEnd:
    return RunEnd("result", AgentResult(status, error="boom" if status == "error" else None))


EXCLUDE, GRADE = HarnessExit(), HarnessExit("grade", "grade")
CLEAN = HarnessExit(crash="grade_if_gateway_clean")
OVERFLOW, DIRTY, STOPPED = Counters(context_overflows=1), Counters(gateway_errors=1), Counters(budget_stops=1)


@pytest.mark.parametrize(
    ("end", "counters", "on_exit", "on_overflow", "expected"),
    [
        (SETUP, Counters(), GRADE, "grade", ("error", "harness_setup")),
        (CONFIG, Counters(), GRADE, "grade", ("error", "harness_config")),
        (UNEXPECTED, Counters(), GRADE, "grade", ("error", "unexpected:KeyError")),
        (UNEXPECTED, OVERFLOW, GRADE, "grade", ("error", "unexpected:KeyError")),
        (ended("timeout"), Counters(), EXCLUDE, "grade", ("timeout", None)),
        (ended("timeout"), Counters(), GRADE, "grade", Grade("agent_timeout")),
        (ended("cancelled"), Counters(), GRADE, "grade", ("cancelled", None)),
        (ended("completed"), STOPPED, EXCLUDE, "grade", Grade("budget")),
        (ended("completed"), Counters(), EXCLUDE, "grade", Grade()),
        (ended("completed"), OVERFLOW, EXCLUDE, "exclude", Grade()),
        (ended("limit"), Counters(), EXCLUDE, "grade", Grade()),
        (ended("limit"), STOPPED, EXCLUDE, "grade", Grade()),
        (ended("error"), OVERFLOW, EXCLUDE, "grade", Grade("context_overflow")),
        (ended("error"), OVERFLOW, GRADE, "exclude", ("error", "context_overflow")),
        (ended("error"), Counters(), EXCLUDE, "grade", ("error", "harness_crash")),
        (ended("error"), Counters(), GRADE, "grade", Grade("harness_crash", "boom")),
        (ended("error"), DIRTY, GRADE, "grade", Grade("harness_crash", "boom")),
        (ended("error"), Counters(), CLEAN, "grade", Grade("harness_crash", "boom")),
        (ended("error"), DIRTY, CLEAN, "grade", ("error", "harness_crash_gateway")),
    ],
)
def test_table(end, counters, on_exit, on_overflow, expected):
    decision = judge_run(end, counters, on_exit, on_overflow)
    if isinstance(expected, Grade):
        assert decision == expected
    else:
        assert (decision.status, decision.failure_kind) == expected
        assert decision.reward is None


def test_no_fault_is_ever_scored():
    ends = [SETUP, CONFIG, UNEXPECTED, *(ended(status) for status in ("completed", "limit", "timeout", "error", "cancelled"))]
    counters = [Counters(), OVERFLOW, DIRTY, STOPPED]
    for end, seen, on_exit, on_overflow in product(ends, counters, [EXCLUDE, GRADE, CLEAN], ["grade", "exclude"]):
        decision = judge_run(end, seen, on_exit, on_overflow)
        assert isinstance(decision, Grade) or decision.status != "scored"


def test_a_reason_displaces_a_scored_outcomes_own():
    own = Outcome("scored", {"reward": 0.5}, reason="partial")
    displaced = with_reason(own, Grade("budget"))
    assert (displaced.reason, displaced.metadata) == ("budget", {"grade_reason": "partial"})
    assert with_reason(own, Grade()) is own
    told = with_reason(own, Grade("context_overflow", "16 tokens"))
    assert told.explanation == "context_overflow: 16 tokens"
    invalid = Outcome.infra("no_reward", "invalid", reason="x")
    assert with_reason(invalid, Grade("budget")) is invalid


@pytest.mark.parametrize(
    ("status", "own", "gateway", "detail"),
    [
        ("error", "exit code 1", "ServiceError: 400 too long", "exit code 1; ServiceError: 400 too long"),
        ("error", "ServiceError: 400 too long", "ServiceError: 400 too long", "ServiceError: 400 too long"),
        ("error", "boom", None, "boom"),
        ("timeout", None, "ServiceError: 503", "ServiceError: 503"),
    ],
)
def test_what_the_gateway_said_last_is_told_once(status, own, gateway, detail):
    end = RunEnd("result", AgentResult(status, error=own))
    decision = judge_run(end, Counters(last_error=gateway), EXCLUDE, "grade")
    assert decision.metadata == {"detail": detail}
