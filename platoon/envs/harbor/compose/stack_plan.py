"""The stack plan: frozen data with one canonical JSON form, which a lock keeps once for all the tasks that share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

RULE = "platoon-compose-v1"


@dataclass(frozen=True)
class StackPlan:
    """A task's containers: `main` and, in a stack, its sidecars."""

    @property
    def digest(self) -> str:
        """`sha256:<hex>` of the canonical JSON: its key in a lock's `plans`."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON values."""
        raise NotImplementedError
