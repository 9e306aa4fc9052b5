"""A group that has settled and is stored, with the draw it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from platoon.train.dispatch.draw import Draw
from platoon.train.workflow.output import GroupOutput


@dataclass(frozen=True)
class SettledGroup:
    """digest: `sha256:<hex>` of the stored group below `<run dir>/tasks/groups/`."""

    draw: Draw
    output: GroupOutput
    digest: str
