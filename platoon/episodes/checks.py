"""What can be known of a route before any rollout: told once when a configuration loads, instead of once a rollout."""

from __future__ import annotations

from collections.abc import Iterator

from platoon.config.text import quoted
from platoon.episodes.program import PROGRAMS
from platoon.episodes.route import Route
from platoon.errors import ConfigError, Problem
from platoon.harness.options import resolve_options
from platoon.harness.registry import get_harness
from platoon.harness.spec import HarnessSpec


def route_problems(route: Route) -> Iterator[Problem]:
    """Every reason why no rollout of this route could run; keys are those of the entry."""
    try:
        harness = get_harness(route.harness)
    except ConfigError as error:
        yield from error.problems
        return
    if route.program not in PROGRAMS:
        yield Problem(f"{quoted(route.program)} is none of {', '.join(sorted(PROGRAMS))}", key="program")
    try:
        route.exit_rules  # noqa: B018  because asking is the check
    except ConfigError as error:
        yield from error.problems
    if not isinstance(harness, HarnessSpec):
        return
    if route.program != "single":
        yield Problem(f"{harness.reference} is a spec, which runs under the program `single` only", key="program")
    if route.placement == "local":
        yield Problem("is not served in this version", key="placement", advice="use task_sandbox")
    if harness.mcp is not None and harness.mcp.enabled:
        yield Problem(f"{harness.reference} needs an MCP endpoint, which is not served in this version", key="harness")
    if harness.install.toolchain is not None:
        yield Problem(f"{harness.reference} needs a toolchain, which is not served in this version", key="harness")
    try:
        resolve_options(harness.options, route.harness_options)
    except ValueError as error:
        key, _, rule = str(error).partition(": ")
        yield Problem(rule, key=key)
