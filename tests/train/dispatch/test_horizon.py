"""The horizon, against a step-by-step simulation of a trainer and its starts."""

from __future__ import annotations

import itertools

import pytest

from platoon.train.dispatch.horizon import Counts, blocked_by, plan_room, room

pytestmark = pytest.mark.unit


def simulate(batch: int, bound: int | None, steps: int, starts_first: bool) -> tuple[int, int]:
    """Runs a plan greedily; returns (groups started, largest age in publications of a group when it is taken)."""
    started, oldest_age = 0, 0
    pipeline: list[int] = []
    for version in range(steps):
        taken = admitted = 0
        while taken < batch:
            while blocked_by(Counts(len(pipeline), admitted, steps - version), batch, {"main": bound}) is None:
                pipeline.append(version)
                started += 1
                if not starts_first:
                    break
            oldest_age = max(oldest_age, version - pipeline.pop(0))
            taken += 1
            admitted += 1
    return started, oldest_age


@pytest.mark.parametrize(("batch", "bound", "steps"), list(itertools.product((1, 2, 3), (0, 1, 2, 3, None), (1, 2, 5))))
@pytest.mark.parametrize("starts_first", [True, False])
def test_the_plan_starts_exactly_its_groups_and_none_is_older_than_the_bound(
    batch: int, bound: int | None, steps: int, starts_first: bool
) -> None:
    started, oldest = simulate(batch, bound, steps, starts_first)
    assert started == batch * steps
    assert oldest <= (bound if bound is not None else steps - 1)
    if starts_first and bound is not None and steps > bound:
        assert oldest == bound


def test_room_agrees_with_counting_up_to_the_cap() -> None:
    for pipeline, admitted, held, batch, bound in itertools.product(range(7), range(4), range(3), (1, 2, 3), (0, 1, 2)):
        naive = 0
        while pipeline + naive + admitted + held < (bound + 1) * batch:
            naive += 1
        assert room(Counts(pipeline, admitted, 9), batch, bound, held) == naive
        assert plan_room(Counts(pipeline, admitted, bound), batch) == max(0, bound * batch - pipeline - admitted)


def test_without_a_bound_only_the_plan_limits() -> None:
    assert room(Counts(100, 100, 1), 4, None) is None
    assert blocked_by(Counts(3, 0, 1), 4, {"main": None}) is None
    assert blocked_by(Counts(4, 0, 1), 4, {"main": None}) == "plan"


def test_the_first_policy_without_room_names_the_reason() -> None:
    counts = Counts(4, 0, 9)
    assert blocked_by(counts, 4, {"main": 0, "helper": 0}) == "horizon"
    assert blocked_by(counts, 4, {"main": 1, "helper": 0}) == "horizon:helper"
    assert blocked_by(counts, 4, {"main": 1, "helper": 1}) is None
