"""platoon trains systems of LLM agents on sandboxed tasks, reproducibly, on an HPC cluster.

`import platoon as pt` is cheap: a public name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.5.0"

_SUBMODULES = frozenset({"harness"})

_PUBLIC: dict[str, str] = {
    "AgentAPI": "platoon.harness.api",
    "AgentContext": "platoon.harness.api",
    "AgentFn": "platoon.harness.registry",
    "AgentResult": "platoon.harness.api",
    "AgentStatus": "platoon.harness.api",
    "Budget": "platoon.harness.api",
    "CallKind": "platoon.core.call_kinds",
    "ChatReply": "platoon.harness.api",
    "EpisodeContext": "platoon.episodes.program",
    "EpisodeProgram": "platoon.episodes.program",
    "FunctionHarness": "platoon.harness.registry",
    "ModelEndpoint": "platoon.harness.api",
    "SubagentResult": "platoon.harness.api",
    "get_harness": "platoon.harness.registry",
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
    if name in _SUBMODULES:
        return importlib.import_module(f"platoon.{name}")
    raise AttributeError(f"module 'platoon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
