"""Programs compose an episode: run the root agent, grade, and look at the result. `single` is the one there is."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from platoon.core.outcome import Outcome
from platoon.core.protocols import EnvSession
from platoon.core.task import Task
from platoon.core.trajectory import TrajectoryCollection
from platoon.episodes.route import RolloutSettings, Route
from platoon.gateway.agents import AgentRecord
from platoon.harness.errors import HarnessConfigError

Finalizer = Callable[[TrajectoryCollection], Any]
EpisodeProgram = Callable[["EpisodeContext"], Awaitable[Outcome]]


@dataclass
class EpisodeContext:
    """What a program may use. play: runs the root agent and returns its graded or ungradable end."""

    task: Task
    session: EnvSession
    route: Route
    settings: RolloutSettings
    root: AgentRecord
    play: Callable[[], Awaitable[Outcome]]
    finalizers: list[Finalizer] = field(default_factory=list)

    def add_finalizer(self, finalizer: Finalizer) -> None:
        """Runs on the built collection, in order; one that is there already is not added again."""
        if finalizer not in self.finalizers:
            self.finalizers.append(finalizer)


async def single(episode: EpisodeContext) -> Outcome:
    """One agent, then its grade."""
    return await episode.play()


PROGRAMS: dict[str, EpisodeProgram] = {"single": single}


def get_program(name: str) -> EpisodeProgram:
    """Raises HarnessConfigError for a program that there is not."""
    if name not in PROGRAMS:
        raise HarnessConfigError(f"program {name!r} is none of {', '.join(sorted(PROGRAMS))}")
    return PROGRAMS[name]


async def run_finalizers(episode: EpisodeContext, collection: TrajectoryCollection) -> Outcome | None:
    """Runs them in order; the outcome to use instead when one raises."""
    for finalizer in episode.finalizers:
        try:
            result = finalizer(collection)
            if inspect.isawaitable(result):
                await result
        except Exception as error:
            return Outcome.infra(f"finalizer:{type(error).__name__}", metadata={"detail": str(error)[:2000]})
    return None
