"""Each compose file of the corpus gives the plan or the refusal that it says.

The files name the checklist rows and the cases they prove (`rows`, `cases`): among them H027 to H037, H042 to H048, H053, H054, and
U01, U04, U05, U07, U08, U10, U13, U16, U17, U26, U27.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from platoon.envs.harbor.compose import PlannedTask, stack_kind
from platoon.envs.harbor.compose.stack_plan import ServicePlan
from platoon.envs.harbor.format import TaskRefused
from tests.envs.harbor.compose.compose_view import BESIDE, expected
from tests.envs.harbor.compose.corpus import Case, cases, digest, topics

pytestmark = pytest.mark.unit

USER_CASES = frozenset({"U01", "U04", "U05", "U07", "U08", "U10", "U13", "U16", "U17", "U26", "U27"})
ROWS = frozenset(
    {
        *("H027", "H028", "H029", "H030", "H031", "H032", "H033", "H034", "H035", "H036", "H037", "H042", "H043", "H044", "H045"),
        *("H046", "H047", "H048", "H053", "H054"),
    }
)


@pytest.mark.parametrize("topic", topics())
def test_corpus(topic: str, tmp_path: Path) -> None:
    """Every case of a topic; what fails is named."""
    wrong: dict[str, str] = {}
    for number, case in enumerate(cases(topic)):
        if (problem := judge(case, tmp_path / str(number))) is not None:
            wrong[case.name] = problem
    assert not wrong, "\n".join(f"{name}: {problem}" for name, problem in wrong.items())


def judge(case: Case, tmp: Path) -> str | None:
    """What is wrong with the plan or refusal of a case, None when nothing is."""
    try:
        planned = case.plan(tmp)
    except TaskRefused as refusal:
        if str(tmp) in refusal.refusal:
            return f"names the directory: {refusal.refusal}"
        expected = case.refused
        return None if expected is not None and refusal.refusal.startswith(expected) else f"refused: {refusal.refusal}"
    if case.refused is not None:
        return f"planned, not refused: {case.refused}"
    shown = plan_of(planned)
    if "kind" in case.header:
        alone = stack_kind(tmp / "task", case.overlays(tmp / "overlay"))
        if not planned.kind == alone == case.header["kind"]:
            return f"kinds {planned.kind}, {alone}"
    if (whole := digest(planned)) != case.header.get("plan"):
        return f"its plan has the digest {whole} (python -m tests.envs.harbor.compose.record writes it)"
    for place, value in case.header.get("has", {}).items():
        if (found := at(shown, place)) != value:
            return f"{place} is {found}"
    text = json.dumps(shown)
    host = [value for value in case.header.get("host", {}).values() if len(value) > 3]
    return "the plan holds a path or value of the host" if any(value in text for value in (str(tmp), *host)) else None


def test_the_corpus_is_whole() -> None:
    everything = [case for topic in topics() for case in cases(topic)]
    assert len(everything) >= 150
    assert all("has" in case.header or "kind" in case.header for case in everything if case.refused is None)
    assert {name for case in everything for name in case.header.get("cases", ())} == USER_CASES
    assert {name for case in everything for name in case.header.get("rows", ())} >= ROWS


def test_the_view_that_compose_is_asked_for_has_every_field_of_a_service_and_the_corpus_fills_each(tmp_path: Path) -> None:
    """Row H028: a field that no case sets would be compared with nothing."""
    filled: set[str] = set()
    accepted = (case for topic in topics() for case in cases(topic) if case.refused is None)
    for number, case in enumerate(accepted):
        directory = tmp_path / str(number)
        planned = case.plan(directory)
        if planned.plan is not None:
            for name in ("main", *planned.plan.services):
                view = expected(case, planned, name, directory / "task")
                assert {*view, "init"} == {field.name for field in fields(ServicePlan)} | BESIDE
                filled |= {key for key, value in view.items() if value not in (None, False, 0, [], {})}
    assert filled == {field.name for field in fields(ServicePlan)} - {"init"} | BESIDE


def plan_of(planned: PlannedTask) -> dict[str, Any]:
    """What `has` looks into."""
    found: dict[str, Any] = planned.plan.to_dict() if planned.plan is not None else {}
    return found | {"image": dict(planned.image), "gpus": planned.gpus, "user": planned.user, "compose": planned.compose}


def at(value: Any, place: str) -> Any:
    """The value at a place, None where there is none."""
    for part in place.split("/"):
        value = value[int(part)] if isinstance(value, list) else value.get(part)
    return value
