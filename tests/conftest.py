"""Fixtures of all groups. A test belongs to the groups its markers name; a test without one fails to collect."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["tests.leftovers"]

GROUPS = ("unit", "process", "model", "tools", "docker", "hpc", "slurm")
ROOT = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuses a test of no group: no command would ever run it. What may take longest begins first: workers then end together."""
    homeless = [item.nodeid for item in items if not any(item.get_closest_marker(group) for group in GROUPS)]
    if homeless:
        raise pytest.UsageError(f"tests without a group marker ({', '.join(GROUPS)}): {', '.join(homeless[:5])}")
    items.sort(key=may_take_s, reverse=True)


def may_take_s(item: pytest.Item) -> float:
    """What a test's own marker gives it, 0 without one."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker is not None else 0.0


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the checkout under test."""
    return ROOT
