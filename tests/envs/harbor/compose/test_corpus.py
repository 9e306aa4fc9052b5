"""Each compose file of the corpus gives the plan or the refusal that it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from platoon.envs.harbor.compose import PlannedTask, stack_kind
from platoon.envs.harbor.format import TaskRefused
from tests.envs.harbor.compose.corpus import Case, cases

pytestmark = pytest.mark.unit

CASES = cases()
CASES_NAMED = ("U01", "U04", "U05", "U07", "U08", "U10", "U13", "U26")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_corpus(case: Case, tmp_path: Path) -> None:
    if case.refused is not None:
        with pytest.raises(TaskRefused) as refusal:
            case.plan(tmp_path)
        assert refusal.value.refusal.startswith(case.refused)
        assert str(tmp_path) not in refusal.value.refusal
        return
    planned = case.plan(tmp_path)
    shown = plan_of(planned)
    if "kind" in case.header:
        assert planned.kind == case.header["kind"] == stack_kind(tmp_path / "task", case.overlays(tmp_path / "overlay"))
    for place, value in case.header.get("has", {}).items():
        assert at(shown, place) == value, place
    assert "has" in case.header or "kind" in case.header
    text = json.dumps(shown)
    assert str(tmp_path) not in text
    assert not any(value in text for value in case.header.get("host", {}).values() if len(value) > 3)


def test_the_corpus_is_large_enough() -> None:
    assert len(CASES) >= 150
    assert {name for case in CASES for name in case.header.get("cases", ())} >= set(CASES_NAMED)


def plan_of(planned: PlannedTask) -> dict[str, Any]:
    """What `has` looks into."""
    found: dict[str, Any] = planned.plan.to_dict() if planned.plan is not None else {}
    return found | {"image": dict(planned.image), "gpus": planned.gpus, "user": planned.user, "compose": planned.compose}


def at(value: Any, place: str) -> Any:
    for part in place.split("/"):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value
