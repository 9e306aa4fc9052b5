"""Every accepted file of the corpus means to compose what its plan says. Row H028."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.envs.harbor.compose.compose_cli import compose_command, config, expected, observed
from tests.envs.harbor.compose.corpus import Case, cases

pytestmark = pytest.mark.docker

ACCEPTED = [
    case for case in cases() if case.refused is None and "oracle" not in case.header and case.header.get("kind") != "trivial"
]


@pytest.fixture(scope="module")
def command() -> list[str]:
    found = compose_command()
    if found is None:
        pytest.skip("no docker compose: python tests/setup/compose.py")
    return found


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_the_plan_is_what_compose_reads(case: Case, tmp_path: Path, command: list[str]) -> None:
    planned = case.plan(tmp_path)
    assert planned.plan is not None
    services = config(command, case, tmp_path / "task")
    plans = {"main": planned.plan.main, **planned.plan.services}
    assert set(services) == set(plans)
    for name, plan in plans.items():
        wanted = expected(case, planned.plan.to_dict(), plan, name, tmp_path / "task")
        found = observed(services[name], name, tmp_path / "task/environment")
        # Configs and secrets are mounts of their own to compose.
        extra = {item["target"] for kind in ("configs", "secrets") for item in services[name].get(kind, ()) if "target" in item}
        wanted["volumes"] = [
            mount for mount in wanted["volumes"] if mount[0] not in extra and not mount[0].startswith("/run/secrets/")
        ]
        # A wait for a service that a profile leaves out is none.
        found["depends_on"] = {other: wait for other, wait in found["depends_on"].items() if other in services}
        assert found == wanted
