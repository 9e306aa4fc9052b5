from __future__ import annotations

import asyncio
import itertools

import pytest

from platoon.local import promises
from platoon.local.promises import Promises, Turns

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("arrival", list(itertools.permutations([1, 2, 3, 4])))
def test_operations_start_in_sequence_order_whatever_order_they_arrive_in(arrival: tuple[int, ...]) -> None:
    turns, started = Turns(), list[int]()
    for number in arrival:
        assert turns.admit(number, lambda number=number: started.append(number))
    assert started == [1, 2, 3, 4]


def test_a_repeated_number_starts_once() -> None:
    turns, started = Turns(), list[str]()
    turns.admit(2, lambda: started.append("two"))
    turns.admit(2, lambda: started.append("two again"))
    turns.admit(1, lambda: started.append("one"))
    turns.admit(1, lambda: started.append("one again"))
    assert started == ["one", "two"]


def test_a_flood_of_early_arrivals_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "MOST_WAITING", 2)
    turns, started = Turns(), list[int]()
    assert turns.admit(5, lambda: started.append(5))
    assert turns.admit(4, lambda: started.append(4))
    assert not turns.admit(3, lambda: started.append(3))
    assert turns.admit(4, lambda: started.append(44))
    assert started == []


def test_outcomes_stay_for_a_grace_after_they_were_fetched() -> None:
    async def scenario() -> None:
        now = [1000.0]
        table = Promises(lambda: now[0])
        pending, fetched, unfetched = table.open("pending"), table.open("fetched"), table.open("unfetched")
        for promise in (fetched, unfetched):
            promise.resolve({"ok": True})
            promise.finished_at = 1000.0
        fetched.fetched_at = 1000.0
        now[0] = 1000.0 + promises.FETCHED_GRACE_S - 1
        table.sweep()
        assert len(table) == 3
        now[0] = 1000.0 + promises.FETCHED_GRACE_S + 1
        table.sweep()
        assert table.find("fetched") is None and table.find("unfetched") is unfetched
        now[0] = 1000.0 + promises.UNFETCHED_GRACE_S + 1
        table.sweep()
        assert table.find("unfetched") is None and table.find("pending") is pending

    asyncio.run(scenario())


def test_the_first_outcome_holds() -> None:
    async def scenario() -> None:
        promise = Promises().open("one")
        promise.resolve({"value": 1})
        promise.resolve(ValueError("late"))
        assert await promise.future == {"value": 1}

    asyncio.run(scenario())
