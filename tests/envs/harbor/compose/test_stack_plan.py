"""Plans read back from a lock: equal values for every plan of the corpus and for mixtures of them, none for anything else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platoon.envs.harbor.compose import StackPlan
from platoon.envs.harbor.compose.stack_plan import External, ServicePlan
from platoon.envs.harbor.compose.text import (
    ContextPart,
    HostPart,
    ImagePart,
    LogsPart,
    RefPart,
    SelfPart,
    Text,
    from_json,
    join,
    to_json,
)
from platoon.envs.harbor.format import TaskRefused
from platoon.envs.harbor.lock import HarborLock
from platoon.errors import ConfigError
from tests.envs.harbor.compose.corpus import cases, topics
from tests.envs.harbor.fakes.locks import FLAGS, make_lock, make_row

pytestmark = pytest.mark.unit

WORDS = st.text(max_size=6)
PARTS = st.recursive(
    st.builds(ContextPart, WORDS)
    | st.builds(LogsPart, st.sampled_from(["verifier", "agent", "artifacts"]))
    | st.builds(ImagePart)
    | st.builds(RefPart, WORDS, st.integers(1, 65535))
    | st.builds(SelfPart, st.integers(1, 65535)),
    lambda inner: st.builds(
        HostPart,
        st.sampled_from(["A", "B"]),
        unset=st.none() | st.lists(WORDS | inner, max_size=3).map(lambda items: join(*items)),
        empty=st.none() | WORDS,
        set=st.none() | st.lists(WORDS | inner, max_size=3).map(lambda items: join(*items)),
        nonempty=st.booleans(),
    ),
    max_leaves=5,
)
TEXTS = st.lists(WORDS | PARTS, max_size=4).map(lambda items: join(*items))
WORD_LISTS = st.none() | st.lists(TEXTS, max_size=2).map(tuple)
ENVIRONMENTS = st.dictionaries(st.sampled_from(["X", "Y\n"]), TEXTS)
NUMBERS = st.integers(0, 10_000)


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> list[StackPlan]:
    """Every plan of the corpus."""
    return list(corpus_plans(tmp_path_factory.mktemp("corpus")))


def corpus_plans(place: Path) -> Iterator[StackPlan]:
    for topic in topics():
        for case in cases(topic):
            if case.refused is None:
                try:
                    plan = case.plan(place / case.name).plan
                except TaskRefused:  # the corpus' own test tells
                    continue
                if plan is not None:
                    yield plan


def through_a_lock(plan: StackPlan) -> StackPlan:
    """The plan as a session reads it: from the bytes of a lock."""
    compose = {"plan": plan.digest, "unrewritable_references": []}
    row = make_row(compose=compose, flags={**FLAGS, "stack": "sidecars" if plan.services else "main_only"})
    lock = make_lock(row, plans={plan.digest: plan.to_dict()})
    read = HarborLock.from_bytes(lock.to_bytes(), "lock")
    found = read.stack_plan(read.tasks[0])
    assert found is not None
    return found


def test_every_plan_of_the_corpus_is_read_back_from_a_lock(plans: list[StackPlan]) -> None:
    assert len(plans) >= 140
    for plan in plans:
        found = through_a_lock(plan)
        assert found == plan
        assert found.digest == plan.digest


def test_the_corpus_sets_every_field(plans: list[StackPlan]) -> None:
    """Otherwise reading it back would show little."""
    services = [service for plan in plans for service in (plan.main, *plan.services.values())]
    for kind, values in ((StackPlan, plans), (ServicePlan, services), (External, [e for p in plans for e in p.externals.values()])):
        for item in fields(kind):
            assert any(getattr(value, item.name) for value in values), f"{kind.__name__}.{item.name}"


@settings(max_examples=60, deadline=None)
@given(
    number=NUMBERS,
    drawn=st.lists(st.tuples(NUMBERS, st.dictionaries(st.sampled_from(["X", "Y\n"]), TEXTS), WORD_LISTS), max_size=3),
)
def test_mixtures_of_plans_are_read_back(
    plans: list[StackPlan], number: int, drawn: list[tuple[int, dict[str, Text], tuple[Text, ...] | None]]
) -> None:
    """Services of other plans with texts that hypothesis makes, in places a text stands in."""
    others = [service for other in plans for service in other.services.values()]
    services = {
        f"s{at}": replace(service, env={**service.env, **env}, command=words)
        for at, (index, env, words) in enumerate(drawn)
        for service in [others[index % len(others)]]
    }
    mixed = replace(plans[number % len(plans)], order=("main", *services), services=services)
    assert through_a_lock(mixed) == mixed


@given(TEXTS)
def test_texts_are_read_back(text: Text) -> None:
    assert from_json(json.loads(json.dumps(to_json(text)))) == text


@settings(max_examples=150, deadline=None)
@given(
    number=NUMBERS,
    steps=st.lists(NUMBERS, min_size=1, max_size=8),
    other=st.none() | st.booleans() | st.integers() | WORDS | st.just([[]]) | st.just({"host": "A", "x": 1}),
)
def test_what_is_no_plan_is_refused(plans: list[StackPlan], number: int, steps: list[int], other: Any) -> None:
    """Any value in any place: an equal plan, or a ValueError; nothing else escapes and nothing is lost in silence."""
    value = copy.deepcopy(plans[number % len(plans)].to_dict())
    place: Any = value
    for step in steps:
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = keys[step % len(keys)]
        if not isinstance(place[key], dict | list) or not place[key] or step == steps[-1]:
            break
        place = place[key]
    place[key] = other
    try:
        found = StackPlan.from_dict(value)
    except ValueError as error:
        assert str(error).startswith("is no stack plan")
    else:
        assert found.to_dict() == value


@pytest.mark.parametrize(
    ("rule", "words"), [("platoon-compose-v0", "is no stack plan of platoon-compose-v1"), (None, "is no stack plan of")]
)
def test_a_plan_of_another_rule(plans: list[StackPlan], rule: str | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        StackPlan.from_dict({**plans[0].to_dict(), "rule": rule})


def test_a_lock_whose_plan_was_changed(plans: list[StackPlan]) -> None:
    plan = plans[0]
    row = make_row(compose={"plan": plan.digest, "unrewritable_references": []}, flags={**FLAGS, "stack": "sidecars"})
    lock = make_lock(row, plans={plan.digest: {**plan.to_dict(), "notes": ["x"]}})
    with pytest.raises(ConfigError, match=f"lock: plans.{plan.digest}: the plan is not what its digest says"):
        HarborLock.from_bytes(lock.to_bytes(), "lock")
    with pytest.raises(ConfigError, match=f"lock: task t: compose.plan: the lock has no such plan, got {plan.digest}"):
        HarborLock.from_bytes(replace(lock, plans={}).to_bytes(), "lock")
    assert lock.stack_plan(replace(row, compose=None)) is None
