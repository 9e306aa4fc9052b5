"""What is wrong with a value of several forms is told of the form it is nearest to."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from platoon.config.model import ConfigModel
from platoon.config.problems import from_validation_error

pytestmark = pytest.mark.unit


class File(ConfigModel):
    path: str
    fields: list[str] | None = None


class Names(ConfigModel):
    names: list[str]


class Model(ConfigModel):
    items: list[str | File | Names] = Field(default_factory=list)
    one: str | Annotated[list[str], Field(min_length=1)] = ""
    table: dict[str, bool | list[float]] = Field(default_factory=dict)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"items": [{"names": "a"}]}, ['items.0.names: must be a list, got "a"']),
        ({"items": [{"path": 1, "fields": "a"}]}, ["items.0.path: must be text, got 1", 'items.0.fields: must be a list, got "a"']),
        ({"items": ["a", {"nams": ["a"]}]}, ["items.1.names: is required", "items.1.nams: unknown key (did you mean names?)"]),
        ({"items": [{"path": "a", "filds": []}]}, ["items.0.filds: unknown key (did you mean fields?)"]),
        ({"items": [{"path": "a", "names": ["a"]}]}, ["items.0.names: does not go with fields, path (give one or the other)"]),
        ({"items": [{"fields": [], "names": ["a"]}]}, ["items.0.fields: does not go with names (give one or the other)"]),
        (
            {"items": [{"path": "a", "names": ["a"], "more": 1}]},
            [
                "items.0.names: does not go with fields, path (give one or the other)",
                "items.0.more: unknown key (known here: fields, names, path)",
            ],
        ),
        (
            {"items": [{"more": 1}]},
            [
                "items.0.path: is required",
                "items.0.more: unknown key (known here: fields, names, path)",
                "items.0.names: is required",
            ],
        ),
        ({"items": [3]}, ["items.0: must be text or must be a mapping, got 3"]),
        (
            {"items": [{"names": "a"}, 3]},
            ['items.0.names: must be a list, got "a"', "items.1: must be text or must be a mapping, got 3"],
        ),
        ({"one": ["a", 1]}, ["one.1: must be text, got 1"]),
        ({"one": 1}, ["one: must be text or must be a list, got 1"]),
        (
            {"table": {"list": ["x"], "b": "y"}},
            ['table.list.0: must be a number, got "x"', 'table.b: must be true or false or must be a list, got "y"'],
        ),
    ],
)
def test_the_nearest_form_is_told(value: dict[str, Any], told: list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        Model.model_validate(value)
    assert [str(problem) for problem in from_validation_error(caught.value, Model, value, lambda _: "")] == told
