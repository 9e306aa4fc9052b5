from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.errors import ConfigError
from platoon.train.dataset_order.order import Pool, WeightedMixture, WholePool, build_order, total_steps

pytestmark = pytest.mark.unit


def pool(entry: str, count: int, weight: float | str = "tasks", seed: int = 0) -> Pool:
    return Pool(entry, tuple(f"{entry}-{index}" for index in range(count)), weight, seed)  # type: ignore[arg-type]


@given(count=st.integers(1, 20), batch=st.integers(1, 6), seed=st.integers(0, 5))
def test_auto_draws_every_task_once_a_pass_and_any_position_alone(count: int, batch: int, seed: int) -> None:
    if batch > count:
        with pytest.raises(ConfigError, match=r"train.batch_size: must not exceed the \d+ listed train tasks"):
            build_order("auto", [pool("a", count)], batch, seed)
        return
    order = build_order("auto", [pool("a", count)], batch, seed)
    assert order.epoch_size == count // batch * batch
    drawn = [order.at(position).task_id for position in range(3 * count)]
    for number in range(3):
        assert len(set(drawn[number * count : (number + 1) * count])) == count
    again = build_order("auto", [pool("a", count)], batch, seed)
    assert [again.at(position).task_id for position in reversed(range(3 * count))] == drawn[::-1]


def test_the_shuffle_is_stable_over_versions() -> None:
    """An exact resume depends on these very numbers."""
    assert [WholePool([pool("a", 6)], 2).at(position).pool_index for position in range(12)] == [3, 1, 2, 4, 0, 5, 5, 2, 3, 4, 0, 1]
    assert [WholePool([pool("a", 6)], 2, 1).at(position).pool_index for position in range(6)] == [5, 4, 3, 1, 2, 0]


def test_a_mixture_gives_slots_by_weight_evenly() -> None:
    order = WeightedMixture([pool("a", 3, 3.0), pool("b", 5, 1.0)], 4)
    entries = [order.at(position).entry for position in range(40)]
    assert Counter(entries) == {"a": 30, "b": 10}
    for begin in range(0, 40, 4):
        assert entries[begin : begin + 4].count("b") == 1
    places = [order.at(position) for position in range(40)]
    assert Counter(place.task_id for place in places if place.entry == "b") == {f"b-{index}": 2 for index in range(5)}
    assert {place.pool_index for place in places if place.entry == "b"} == set(range(3, 8))


def test_tasks_weigh_alike_in_a_mixture_by_tasks_and_an_empty_entry_gets_none() -> None:
    order = build_order("auto", [pool("a", 2), pool("none", 0), pool("b", 6)], 4)
    assert order.epoch_size == 8
    assert Counter(order.at(position).task_id for position in range(8)) == {
        **{f"a-{index}": 1 for index in range(2)},
        **{f"b-{index}": 1 for index in range(6)},
    }
    with pytest.raises(ConfigError, match="lists no task"):
        build_order("auto", [pool("a", 0), pool("b", 0)], 4)


@pytest.mark.parametrize(("epochs", "steps", "expected"), [(2, None, 4), (None, 7, 7), (2, 3, 3), (2, 9, 4)])
def test_the_plan_is_the_shorter_of_its_limits(epochs: int | None, steps: int | None, expected: int) -> None:
    assert total_steps(WholePool([pool("a", 9)], 4), 4, epochs, steps) == expected
