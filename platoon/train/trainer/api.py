"""What a trainer is to a run: hooks called at fixed phases, and what it asks of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from platoon.host.console import Console
from platoon.sampling.renderer import Renderer
from platoon.train.checkpoints.participants import Participants
from platoon.train.policy.policy import Policy
from platoon.train.policy.waits import Waits
from platoon.train.trainer.settings import RunSettings, StepResult
from platoon.train.trainer.signals import StopRequest


@dataclass(frozen=True)
class TrainerNeeds:
    """What a trainer asks of its run.

    atomic_steps: an interrupt in the middle of a step whose work was sent saves nothing; a resume goes back to the full save
    before. fail_closed_updates: an optimizer step that was skipped, or answered with numbers that are not finite, raises
    UpdateRejected before it counts. rollouts: agents sample the policies. stepping: which clocks the run builds.
    """

    atomic_steps: bool = True
    fail_closed_updates: bool = True
    rollouts: bool = False
    stepping: Literal["lockstep"] = "lockstep"


class Run(Protocol):
    """What a trainer sees of its start (`trainer.run.TrainerRun`)."""

    settings: RunSettings
    console: Console
    clock: Callable[[], float]
    stop: StopRequest
    participants: Participants
    waits: Waits
    policies: dict[str, Policy]
    start: int
    step: int
    step_open: bool

    @property
    def trained(self) -> list[Policy]: ...

    @property
    def steps_left(self) -> int: ...

    def tell(self, stage: str, detail: str = "") -> None: ...

    async def end_step(self, result: StepResult, *, sampled: bool = True) -> None: ...


class Trainer(Protocol):
    """The hooks, in the order the run calls them."""

    def needs(self) -> TrainerNeeds: ...

    def identity(self) -> Mapping[str, Any]: ...

    def planned_steps(self) -> int: ...

    def steps_per_epoch(self) -> float: ...

    def preview(self, renderers: Mapping[str, Renderer]) -> None: ...

    def check(self, run: Run) -> None: ...

    async def prepare(self, run: Run) -> None: ...

    async def started(self, run: Run) -> None: ...

    async def ready(self, run: Run) -> None: ...

    async def run_steps(self, run: Run) -> None: ...

    def has_unsaved_work(self) -> bool: ...

    async def close(self, run: Run) -> None: ...


class TrainerBase:
    """A trainer with hooks that do nothing. `planned_steps` and `run_steps` are a trainer's own."""

    def needs(self) -> TrainerNeeds:
        return TrainerNeeds()

    def identity(self) -> Mapping[str, Any]:
        """Digests of inputs outside the configuration that decide what is trained; read before anything opens."""
        return {}

    def planned_steps(self) -> int:
        """Steps of the whole run, from its first start on."""
        raise NotImplementedError

    def steps_per_epoch(self) -> float:
        """Steps of one pass over the data, for cadences in epochs."""
        raise NotImplementedError

    def preview(self, renderers: Mapping[str, Renderer]) -> None:
        """Before anything of the run is made. renderers: by policy, those that need no service to be known. Raises ConfigError."""

    def check(self, run: Run) -> None:
        """First phase: look at the configuration again, register participants with `run.participants`."""

    async def prepare(self, run: Run) -> None:
        """After the training clients opened, before the launch save, which writes the state taken up here once more."""

    async def started(self, run: Run) -> None:
        """Right after the launch save and its publication."""

    async def ready(self, run: Run) -> None:
        """Before the first step."""

    async def run_steps(self, run: Run) -> None:
        """Steps until `run.steps_left` is 0 or a stop is asked, each ended by `run.end_step`."""
        raise NotImplementedError

    def has_unsaved_work(self) -> bool:
        """Whether a start that ends no step is worth a save: work of a step under way that a checkpoint can keep."""
        return False

    async def close(self, run: Run) -> None:
        """On every path. Idempotent."""
