"""The tree of a rollout: what was said, called and answered, cut or whole, safe for a terminal."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from platoon.cli.rollout_view import rollout_view
from platoon.core.outcome import Outcome
from platoon.core.task import Task
from platoon.core.trajectory import ParentInfo, Trajectory, TrajectoryCollection, TrajectoryStep
from platoon.episodes.result import RolloutResult

pytestmark = pytest.mark.unit

MISC = {"agent": {"role": "policy"}, "outcome": {"status": "scored"}}


def step(call_id: str, content: str, *, calls: tuple[str, ...] = (), observed: tuple[Any, ...] = ()) -> TrajectoryStep:
    tool_calls = [{"function": {"name": "bash", "arguments": arguments}} for arguments in calls]
    message = {"role": "assistant", "content": content, "tool_calls": tool_calls}
    return TrajectoryStep({"message": message, "observed": observed, "action_misc": {"completion_id": call_id}})


def told(*trajectories: Trajectory, whole: bool = False, test_output: str = "") -> list[str]:
    outcome = Outcome("scored", {"reward": 0.5, "parsed": 1.0}, metadata={"test_output": test_output})
    collection = TrajectoryCollection("r", {item.id: item for item in trajectories})
    result = SimpleNamespace(collection=collection, outcome=outcome, calls=1, seconds={"total": 2.0})
    out = io.StringIO()
    console = Console(file=out, width=1000, markup=False, highlight=False)
    for part in rollout_view(cast("RolloutResult", result), whole=whole):
        console.print(part)
    return [line.strip() for line in out.getvalue().splitlines()]


def played() -> Trajectory:
    answer = {"role": "tool", "content": "one\ntwo\x1b[31m" + "x" * 300}
    parts = {"role": "tool", "content": [{"type": "text", "text": "in parts"}]}
    steps = [
        step("c1", "look", calls=('{"command":"ls"}', "cat"), observed=({"role": "user", "content": "Do it."},)),
        step("c2", "", calls=("finish",), observed=(answer, parts)),
    ]
    asked = [{"text": "done", "after_call_id": "c2"}, {"text": "of another call", "after_call_id": "c1"}]
    return Trajectory("root-1234567", Task("t", goal="Do it."), steps=steps, reward=0.5, misc={**MISC, "tool_calls": asked})


def test_answers_stand_below_the_step_that_asked() -> None:
    lines = told(played())
    assert lines[0] == "policy, 2 steps: Do it."
    assert lines[1] == '├── 1. look; bash({"command":"ls"}); bash(cat)'
    assert lines[2].startswith(r"│   ├── one two\x1b[31mxxx") and lines[2].endswith("x… (155 more)")
    assert lines[3] == "│   └── in parts"
    assert lines[4:6] == ["└── 2. bash(finish)", "└── done"]
    assert lines[6:] == ["scored, reward 0.500, 1 call, 2.0 s", "of it: parsed 1.000"]


@pytest.mark.parametrize(
    ("ran", "lines"),
    [
        (None, ["no model call: Do it."]),
        ({"exit_code": 0, "timed_out": False, "output": "did\nit"}, ["└── ran solution/solve.sh: exit code 0", "└── did it"]),
        (
            {"exit_code": -9, "timed_out": True, "output": ""},
            ["└── ran solution/solve.sh: stopped at its time limit", "└── (it wrote nothing)"],
        ),
    ],
)
def test_what_ran_without_a_model_is_shown(ran: dict[str, Any] | None, lines: list[str]) -> None:
    misc = MISC if ran is None else {**MISC, "oracle": ran}
    expected = lines if ran is None else ["oracle: Do it.", *lines]
    assert told(Trajectory("root", Task("t", goal="Do it."), misc=misc))[: len(expected)] == expected


def test_whole_cuts_nothing() -> None:
    lines = told(played(), whole=True, test_output="tests\nsay so\n")
    assert any(line.endswith("x" * 300) for line in lines) and any(line.endswith("── one") for line in lines)
    assert lines[-4:-2] == ["tests: tests", "say so"]
    assert not any("more)" in line or "\x1b" in line for line in lines)


def test_an_agent_that_another_started_is_below_it() -> None:
    child = Trajectory("child", Task("t"), ParentInfo("root-1234567", 1), [step("c", "")], misc=MISC)
    lines = told(played(), child)
    assert lines[0] == "policy root-123, 2 steps, reward 0.500, scored: Do it."
    assert lines[6:8] == ["└── policy child, 1 step, reward 0.000, scored", "└── 1. (nothing)"]
