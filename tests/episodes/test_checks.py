from __future__ import annotations

import pytest

from platoon.episodes.checks import route_problems
from platoon.episodes.route import HarnessExit, Route
from platoon.errors import ConfigError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({}, []),
        ({"harness": "platoon-oracle"}, []),
        ({"harness": "nope"}, ["harness"]),
        ({"program": "nope"}, ["program", "program"]),
        ({"placement": "local"}, ["placement"]),
        ({"harness_options": {"colour": 1}}, ["harness_options.colour"]),
        ({"on_harness_exit": {"timeout": "maybe"}}, ["on_harness_exit.timeout"]),
        ({"on_harness_exit": {"whatever": "grade"}}, ["on_harness_exit.whatever"]),
    ],
)
def test_problems_of_a_route(changes, keys):
    assert [problem.key for problem in route_problems(Route(**changes))] == keys


def test_spellings_of_harness_exits():
    assert Route(on_harness_exit="grade").exit_rules == HarnessExit("grade", "grade")
    assert Route(on_harness_exit={"crash": "grade_if_gateway_clean"}).exit_rules == HarnessExit(crash="grade_if_gateway_clean")
    with pytest.raises(ConfigError):
        Route(on_harness_exit="grade_if_gateway_clean").exit_rules  # noqa: B018  because asking is the check
