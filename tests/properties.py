"""Settings of property tests: a number of examples, and no verdict from a clock that a busy machine decides."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def examples(count: int) -> settings:
    """Runs `count` examples."""
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])
