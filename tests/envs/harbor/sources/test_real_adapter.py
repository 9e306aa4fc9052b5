"""H008: Frontier-CS's own adapter, at a commit of its repository, gives a dataset that locks. Needs the repository: by hand."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from tests.envs.harbor.sources.conftest import Fetching

pytestmark = [pytest.mark.harbor, pytest.mark.timeout(600)]

# A clone to use instead; the commit has to be in it.
VARIABLE = "PLATOON_TEST_FRONTIER_CS"
REPOSITORY = "https://github.com/FrontierCS/Frontier-CS"
COMMIT = "4ac287961f1e08c33fb0f432728734ae7fd360e5"
PROBLEMS = {
    "bboplace-direct-iccad2015",
    "bboplace-direct-ispd2005",
    "bboplace-iccad2015",
    "bboplace-ispd2005",
    "duckdb-e2e-query-optimization",
    "erdos-demo",
    "erdos-unit-distance",
    "generals-io-bot",
    "vector-db-ann",
    "vector-db-ann-relaxed",
}


def options(**more: Any) -> dict[str, Any]:
    return {
        "adapter": {
            "repo": os.environ.get(VARIABLE, REPOSITORY),
            "commit": COMMIT,
            "path": "adapters/frontier-cs-2.0",
            "command": [sys.executable, "-m", "frontier_cs_2_0.main"],
            "args": ["--source", "{repo}"],
            "env": {"PYTHONPATH": "src"},
            "sparse": ["2.0", "adapters/frontier-cs-2.0"],
            **more,
        }
    }


def test_h008_the_adapter_of_frontier_cs(fetching: Fetching) -> None:
    lock = fetching(options()).lock
    assert {row.name for row in lock.tasks} == {f"frontier-cs-2-0-{name}" for name in PROBLEMS}
    assert {row.name: row.refused for row in lock.tasks if not row.runnable} == {}
    assert lock.resolved == COMMIT
    # Each has a judge beside it, whose image is built too.
    plans = [lock.stack_plan(row) for row in lock.tasks]
    assert all(plan is not None and "build" in plan.services["judge"].to_dict()["image"] for plan in plans)
    # It writes a secret of its own into each task: what was locked stays until it is asked for again.
    assert fetching(options()).lock.to_bytes() == lock.to_bytes()


def test_h008_its_conventional_arguments(fetching: Fetching) -> None:
    lock = fetching(options(args=["--source", "{repo}", "--task-ids", "erdos_demo", "--limit", "1"])).lock
    assert [row.name for row in lock.tasks] == ["frontier-cs-2-0-erdos-demo"]
