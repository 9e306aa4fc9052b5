"""Every accepted file of the corpus means to compose what its plan says. Row H028."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.envs.harbor.compose.compose_cli import compose_command, config, expected, observed
from tests.envs.harbor.compose.corpus import Case, cases, topics

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def command() -> list[str]:
    found = compose_command()
    if found is None:
        pytest.skip("no docker compose: python tests/setup/compose.py")
    return found


@pytest.mark.parametrize("topic", topics())
def test_the_plans_are_what_compose_reads(topic: str, tmp_path: Path, command: list[str]) -> None:
    accepted = [case for case in cases(topic) if case.refused is None and "oracle" not in case.header]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda pair: difference(pair[1], tmp_path / str(pair[0]), command), enumerate(accepted)))
    assert not [item for item in found if item is not None]


def difference(case: Case, tmp: Path, command: list[str]) -> str | None:
    """Where plan and compose part, None where they agree; a task whose file changes nothing has no plan."""
    planned = case.plan(tmp)
    if planned.plan is None:
        return None
    services = config(command, case, tmp / "task")
    plans = {"main": planned.plan.main, **planned.plan.services}
    if set(services) != set(plans):
        return f"{case.name}: services {sorted(services)}"
    for name, plan in plans.items():
        wanted = expected(case, plan, name, tmp / "task")
        found = observed(services[name], name, tmp / "task/environment")
        # Configs and secrets are mounts of their own to compose.
        extra = {item["target"] for kind in ("configs", "secrets") for item in services[name].get(kind, ()) if "target" in item}
        wanted["volumes"] = [item for item in wanted["volumes"] if item[0] not in extra and not item[0].startswith("/run/secrets/")]
        # A wait for a service that a profile leaves out is none.
        found["depends_on"] = {other: wait for other, wait in found["depends_on"].items() if other in services}
        for key, value in wanted.items():
            if found[key] != value:
                return f"{case.name}: {name}.{key}: compose has {found[key]}, the plan {value}"
    return None
