"""platoon trains systems of LLM agents on sandboxed tasks, reproducibly, on an HPC cluster.

`import platoon as pt` is cheap: a public name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.5.0"

_PUBLIC: dict[str, str] = {
    "EnvSession": "platoon.core.protocols",
    "EnvironmentService": "platoon.core.protocols",
    "ForkMode": "platoon.core.protocols",
    "Outcome": "platoon.core.outcome",
    "SessionNeeds": "platoon.core.protocols",
    "Task": "platoon.core.task",
    "ToolAccess": "platoon.core.tools",
    "ToolResult": "platoon.core.tools",
    "ToolSpec": "platoon.core.tools",
    "Trajectory": "platoon.core.trajectory",
    "TrajectoryCollection": "platoon.core.trajectory",
}

__all__ = ["__version__", *sorted(_PUBLIC)]  # noqa: PLE0604  because the names are the table's keys


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'platoon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
