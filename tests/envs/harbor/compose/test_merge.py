"""Laying services over each other: laws that compose's rules obey, and a table of what each key does. Rows H027, H034."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.envs.harbor.compose.document import Number
from platoon.envs.harbor.compose.errors import ComposeError
from platoon.envs.harbor.compose.merge import merge_services, pairs

pytestmark = pytest.mark.unit

# What compose 2.40 makes of each pair.
TABLE: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"command": ["a"]}, {"command": ["b", "c"]}, {"command": ["b", "c"]}),
    ({"command": ["a"]}, {"command": None}, {"command": None}),
    ({"environment": {"A": "1", "B": "2"}}, {"environment": ["A=3", "C"]}, {"environment": {"A": "3", "B": "2", "C": None}}),
    ({"environment": {"A": "1"}}, {"environment": None}, {"environment": {"A": "1"}}),
    (
        {"depends_on": ["b"]},
        {"depends_on": {"b": {"condition": "service_healthy"}}},
        {"depends_on": {"b": {"condition": "service_healthy", "required": True}}},
    ),
    (
        {"healthcheck": {"test": "a", "interval": "5s"}},
        {"healthcheck": {"test": ["CMD", "b"]}},
        {"healthcheck": {"test": ["CMD", "b"], "interval": "5s"}},
    ),
    ({"build": "."}, {"build": {"args": {"A": "1"}}}, {"build": {"context": ".", "args": {"A": "1"}}}),
    ({"build": {"args": ["A=1"]}}, {"build": "./x"}, {"build": {"args": ["A=1"], "context": "./x"}}),
    ({"volumes": ["data:/a/", "w:/b"]}, {"volumes": ["./f:/a"]}, {"volumes": ["./f:/a", "w:/b"]}),
    ({"volumes": ["data:/a"]}, {"volumes": [{"type": "tmpfs", "target": "/a"}]}, {"volumes": [{"type": "tmpfs", "target": "/a"}]}),
    ({"ports": ["80:80"]}, {"ports": ["81:80", "80:80"]}, {"ports": ["80:80", "81:80"]}),
    ({"expose": [Number(80, "80")]}, {"expose": ["80", Number(81, "81")]}, {"expose": ["80", Number(81, "81")]}),
    ({"cap_add": ["CHOWN"]}, {"cap_add": ["CHOWN", "KILL"]}, {"cap_add": ["CHOWN", "KILL"]}),
    ({"tmpfs": "/a"}, {"tmpfs": ["/b", "/a"]}, {"tmpfs": ["/a", "/b"]}),
    ({"networks": ["n"]}, {"networks": {"o": {"aliases": ["z"]}}}, {"networks": {"n": None, "o": {"aliases": ["z"]}}}),
    (
        {"ulimits": {"nofile": Number(1, "1")}},
        {"ulimits": {"nofile": {"soft": 2, "hard": 3}}},
        {"ulimits": {"nofile": {"soft": 2, "hard": 3}}},
    ),
    (
        {"secrets": ["s"]},
        {"secrets": ["t", {"source": "u", "target": "s"}]},
        {"secrets": ["s", "t", {"source": "u", "target": "s"}]},
    ),
    ({"privileged": True}, {"privileged": None}, {"privileged": True}),
    ({"privileged": True}, {"privileged": False}, {"privileged": False}),
]


@pytest.mark.parametrize(("below", "above", "expected"), TABLE)
def test_table(below: dict[str, Any], above: dict[str, Any], expected: dict[str, Any]) -> None:
    assert merge_services(below, above) == expected


@pytest.mark.parametrize(
    ("below", "above"),
    [({"deploy": {"a": 1}}, {"deploy": "x"}), ({"ports": ["80"]}, {"ports": "80"}), ({"environment": {}}, {"environment": "A=1"})],
)
def test_forms_that_do_not_fit(below: dict[str, Any], above: dict[str, Any]) -> None:
    with pytest.raises(ComposeError):
        merge_services(below, above)


KEYS = st.sampled_from(["A", "B", "C"])
SERVICES = st.fixed_dictionaries(
    {},
    optional={
        "environment": st.dictionaries(KEYS, st.text("xy=", max_size=3))
        | st.lists(st.sampled_from(["A=1", "B=x=y", "C"]), unique=True),
        "command": st.lists(st.text("ab", max_size=2)) | st.none(),
        "expose": st.lists(st.sampled_from(["80", "81", "82"]), unique=True),
        "volumes": st.lists(st.sampled_from(["./a:/x", "data:/x/", "/y", "./b:/y:ro"]), unique=True),
        "depends_on": st.lists(st.sampled_from(["b", "c"]), unique=True)
        | st.dictionaries(st.sampled_from(["b", "c"]), st.just({"condition": "service_healthy"})),
        "healthcheck": st.fixed_dictionaries({}, optional={"test": st.just("t"), "interval": st.sampled_from(["1s", "2s"])}),
        "working_dir": st.sampled_from(["/a", "/b"]),
        "labels": st.dictionaries(KEYS, st.just("l")),
    },
)


@given(SERVICES, SERVICES)
def test_arguments_are_not_changed(below: dict[str, Any], above: dict[str, Any]) -> None:
    before = copy.deepcopy((below, above))
    merge_services(below, above)
    assert (below, above) == before


@given(SERVICES)
def test_nothing_changes_nothing(service: dict[str, Any]) -> None:
    assert merge_services(service, {}) == service == merge_services({}, service)


@given(SERVICES, SERVICES, SERVICES)
def test_layers_may_be_laid_in_any_grouping(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> None:
    assert normal(merge_services(merge_services(a, b), c)) == normal(merge_services(a, merge_services(b, c)))


@given(SERVICES, SERVICES)
def test_what_stands_above_wins(below: dict[str, Any], above: dict[str, Any]) -> None:
    merged = merge_services(below, above)
    if "command" in above:
        assert merged["command"] == above["command"]
    for name, value in pairs(above.get("environment")).items():
        assert pairs(merged["environment"])[name] == value
    targets = [target(item) for item in merged.get("volumes", ())]
    if "volumes" in above and "volumes" in below:
        assert len(targets) == len(set(targets))


def normal(service: dict[str, Any]) -> dict[str, Any]:
    """Forms that mean the same made one; targets stand once whether two layers named them or one did."""
    found = dict(service)
    if "environment" in found:
        found["environment"] = pairs(found["environment"])
    if isinstance(found.get("depends_on"), list):
        found["depends_on"] = {name: {"condition": "service_started", "required": True} for name in found["depends_on"]}
    if "volumes" in found:
        found["volumes"] = list({target(item): item for item in found["volumes"]}.values())
    return found


def target(volume: str) -> str:
    return (volume if ":" not in volume else volume.split(":")[1]).rstrip("/")
