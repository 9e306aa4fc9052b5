"""Ends what dead owners left: the sandboxes of one run directory, found by their label.

Called as a run starts and as it ends, and by `platoon sandbox reap`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platoon.sandbox.base import SandboxProvider, SupportsReap
from platoon.sandbox.labels import run_labels
from platoon.sandbox.registry import get_provider


async def reap_run(run_dir: Path, provider: str | SandboxProvider = "process", options: Mapping[str, Any] | None = None) -> int:
    """Ends the sandboxes that bear the run's label and whose owner is gone or this process; returns how many.

    Returns once their processes are gone, or after 10 s with a warning. Raises ConfigError for a provider that is none, and
    PlatoonError for a sandbox root that is not this user's alone.
    """
    built = get_provider(provider, **(options or {})) if isinstance(provider, str) else provider
    if not isinstance(built, SupportsReap):
        return 0
    return await built.reap(run_labels(run_dir))
