"""Where a trainer takes settled groups from.

The source owns the order, the draws, the permits and the horizon. A trainer takes groups, tells which draws its step consumed, and
says when the next step may start. What a resume needs is captured at one instant and restored before `start`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from platoon.errors import PlatoonError
from platoon.train.dispatch.draw import Draw, DrawKey, Fate
from platoon.train.dispatch.settled import SettledGroup

__all__ = ["Draw", "DrawKey", "Fate", "RolloutSource", "SettledGroup", "TrainInterrupted"]


class TrainInterrupted(PlatoonError):
    """The run was asked to stop while a step waited for groups; nothing of that step is committed."""


class RolloutSource(Protocol):
    """Settled groups of one run, each handed out once.

    One step: `take` a batch of groups, update, `committed(fates)`, publish, `step_started()`.
    """

    async def start(self) -> None:
        """Begins to start groups; reissued draws of a resume come first."""
        ...

    async def take(self, *, interruptible: bool = True) -> SettledGroup:
        """The next settled group: in settle order, in deterministic mode in order of position.

        A group without rows (failed, no results) takes its place too: the step counts it. interruptible False: for a step that has
        updated already and must finish. Raises TrainInterrupted when the run is asked to stop, PlatoonError when every group fails
        or groups cannot be stored, and ValueError when the plan holds no further group.
        """
        ...

    def committed(self, fates: Mapping[DrawKey, Fate]) -> None:
        """Says what became of groups a step took; from here on a capture leaves them out. ValueError for one not taken."""
        ...

    def step_started(self) -> None:
        """The next step begins (after the publication of the last): its groups may be started within the horizon."""
        ...

    def capture(self) -> dict[str, Any]:
        """Plain JSON values of everything a resume needs, of this instant. Groups taken and not committed are in it as kept."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes up what `capture` gave in an earlier start. Only before `start`."""
        ...

    def blocked_shares(self) -> dict[str, float]:
        """Share of wall time since the last call in which nothing could start, by reason: permits, horizon[:policy], plan."""
        ...

    def nothing_measured(self) -> str | None:
        """The newest cause, with its task, while no rollout of the run, over all starts, gave a measurement and rows; else None."""
        ...

    async def close(self) -> None:
        """Cancels what runs, waits for its cleanup, and gives back everything. Idempotent."""
        ...
