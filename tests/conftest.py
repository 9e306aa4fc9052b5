"""Fixtures of all groups. A test belongs to the groups its markers name; a test without one fails to collect."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.setup.groups import GROUPS

pytest_plugins = ["tests.leftovers"]

NAMES = tuple(group.name for group in GROUPS)
ROOT = Path(__file__).resolve().parents[1]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m GROUP` a module that never names the group is not imported: collecting all takes longer than a small group.

    The unit group collects all, and finds tests of no group.
    """
    group = config.option.markexpr
    is_other = group in NAMES and group != "unit" and collection_path.suffix == ".py"
    return True if is_other and f"mark.{group}" not in collection_path.read_text() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuses a test of no group: no command would ever run it. What may take longest begins first: workers then end together."""
    homeless = [item.nodeid for item in items if not any(item.get_closest_marker(group) for group in NAMES)]
    if homeless:
        raise pytest.UsageError(f"tests without a group marker ({', '.join(NAMES)}): {', '.join(homeless[:5])}")
    items.sort(key=may_take_s, reverse=True)


def may_take_s(item: pytest.Item) -> float:
    """What a test's own marker gives it, 0 without one."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker is not None else 0.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where every tool was installed (CI=true) a test that is skipped has failed: nobody would see it is not run."""
    report = yield
    if os.environ.get("CI") == "true" and report.skipped:
        report.outcome, report.longrepr = "failed", f"skipped under CI: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the checkout under test."""
    return ROOT
