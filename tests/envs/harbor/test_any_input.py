"""Any value in the place of a setting is taken or refused in words; nothing else escapes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from platoon.config.problems import from_validation_error, known_keys
from platoon.envs.harbor.lock import HarborLock
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.task_toml import TaskToml
from platoon.errors import ConfigError

pytestmark = pytest.mark.unit

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["2G", "9" * 400 + "G", "http", "${A}"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3), max_leaves=6
)


def near(model: type[BaseModel], depth: int = 3) -> st.SearchStrategy[Any]:
    """Mappings with the model's own keys, some of them over values of any kind."""
    parts: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel) and depth > 0:
            parts[name] = near(inner, depth - 1) | VALUES
        else:
            parts[name] = VALUES | st.lists(VALUES, max_size=2)
    parts["unknown\nkey"] = VALUES
    return st.fixed_dictionaries({}, optional=parts)


@settings(max_examples=150, deadline=None)
@given(near(TaskToml))
def test_task_settings(value: dict[str, Any]) -> None:
    try:
        TaskToml.model_validate(value)
    except ValidationError as error:
        problems = from_validation_error(error, TaskToml, value, lambda path: "")
        assert problems
        assert all(str(problem).isprintable() for problem in problems)


@settings(max_examples=150, deadline=None)
@given(near(HarborOptions))
def test_options(value: dict[str, Any]) -> None:
    try:
        plain = json.loads(json.dumps(value, allow_nan=False))
    except ValueError:
        return
    try:
        HarborOptions.parse(plain)
    except ConfigError as error:
        assert all(problem.key.startswith("service_kwargs") and str(problem).isprintable() for problem in error.problems)


@settings(max_examples=100, deadline=None)
@given(VALUES | st.fixed_dictionaries({"version": st.just(1), "tasks": VALUES, "plans": VALUES}), st.binary(max_size=20))
def test_locks(value: Any, tail: bytes) -> None:
    with pytest.raises(ConfigError):
        HarborLock.from_bytes(json.dumps(value).encode() + tail, "lock")


def test_known_keys_below_lists_and_mappings() -> None:
    assert known_keys(HarborOptions, ["holdout"]) == {"fraction", "group_by", "stratify_by", "seed", "ignore_inputs"}
    assert known_keys(HarborOptions, ["mounts", "0"]) == {"source", "target", "read_only"}
    assert known_keys(HarborOptions, ["index", "0"]) == {"path", "key", "fields", "metadata"}
    assert known_keys(HarborOptions, ["provider_options"]) == set()
    assert known_keys(HarborOptions, ["nowhere", "x"]) == set()
