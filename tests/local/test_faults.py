from __future__ import annotations

import pytest
from pydantic import ValidationError

from platoon.local.faults import Fault, FaultTable

pytestmark = pytest.mark.unit


def test_a_fault_lets_some_requests_pass_hits_some_and_is_gone() -> None:
    table = FaultTable([Fault(route="asample", action="status", after=2, count=2)])
    hits = [table.take("asample", "before") is not None for _ in range(6)]
    assert hits == [False, False, True, True, False, False]
    assert table.pending() == []


def test_other_routes_and_phases_do_not_count() -> None:
    table = FaultTable([Fault(route="asample", action="drop", after=1, phase="after")])
    assert table.take("optim_step", "after") is None
    assert table.take("asample", "before") is None
    assert table.take("asample", "after") is None
    assert table.take("asample", "after") is not None


def test_the_first_of_several_due_faults_hits_and_the_next_waits() -> None:
    table = FaultTable([Fault(route="*", action="status", status=503), Fault(route="asample", action="drop")])
    first, second = table.take("asample", "before"), table.take("asample", "before")
    assert first is not None and second is not None
    assert (first.status, second.action) == (503, "drop")
    table.add(Fault(route="*", action="exit"))
    table.clear()
    assert table.take("asample", "before") is None


@pytest.mark.parametrize(
    "fields", [{"action": "explode"}, {"status": 200}, {"count": 0}, {"after": -1}, {"delay_s": -1.0}, {"surprise": 1}]
)
def test_a_fault_that_means_nothing_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Fault.model_validate({"route": "asample", "action": "status", **fields})
