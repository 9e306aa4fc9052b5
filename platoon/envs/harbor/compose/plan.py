"""One task's plan: its kind, its stack, the image of `main`, and what the fallback could not rewrite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from platoon.envs.harbor.compose.stack_plan import StackPlan
from platoon.envs.harbor.overlays import Overlay
from platoon.envs.harbor.task_toml import EnvironmentTable, VerifierTable

Kind = Literal["single", "trivial", "main_only", "sidecars"]


class TaskTables(Protocol):
    """What planning reads of a task: a `TaskToml` or a `HarborTask` has it."""

    @property
    def environment(self) -> EnvironmentTable: ...

    @property
    def verifier(self) -> VerifierTable: ...


@dataclass(frozen=True)
class Reference:
    """A service named with a port in a place that the host-network fallback does not rewrite. line: 1-based."""

    file: str
    line: int
    service: str
    port: int

    def to_dict(self) -> dict[str, Any]:
        return {"file": self.file, "line": self.line, "service": self.service, "port": self.port}


@dataclass(frozen=True)
class PlannedTask:
    """plan: None for `single` and `trivial`.

    image: the plan of the task's image as the row's `image` (`kind` is `none`, `prebuilt` or `build`; the lock turns `build` into
    `shared` or `per_task`). gpus: of the task, the compose file's over task.toml's. user: main's `user:` of the compose file, which
    only `refuse: {agent_user: false}` lets through. inputs: the files of the task (`environment/…`) that the image takes in by COPY
    and ADD or that are uploaded. uploads: those of them that a session uploads. unrewritable: see `Reference`. warnings: for people.
    """

    kind: Kind
    plan: StackPlan | None
    image: Mapping[str, Any]
    gpus: int
    user: str | None
    inputs: tuple[str, ...]
    uploads: tuple[str, ...]
    unrewritable: tuple[Reference, ...]
    warnings: tuple[str, ...]

    @property
    def compose(self) -> dict[str, Any] | None:
        """The row's `compose`: the plan by its digest in the lock's `plans`, and the references of this task."""
        if self.plan is None:
            return None
        return {"plan": self.plan.digest, "unrewritable_references": [item.to_dict() for item in self.unrewritable]}


def stack_kind(directory: Path, overlays: Sequence[Overlay] = ()) -> Kind:
    """The kind of a task alone, as cheaply as the file allows. Raises TaskRefused (`compose`, `overlay`) for a file it cannot read."""
    raise NotImplementedError


def plan_task(
    task: TaskTables,
    directory: Path,
    *,
    overlays: Sequence[Overlay] = (),
    privileges: bool = False,
) -> PlannedTask:
    """Plans the compose file and the image of one task directory whose files the overlays have been applied to.

    overlays: those that matched, in order; their `[[compose]]` entries edit the file, their `compose_host_env` lists host variables.
    privileges: True plans what asks for privileges instead of refusing it (`refuse: {privileges: false}`).
    Raises TaskRefused: `overlay` for an edit of a service or key that is not there, `compose` for what is outside the subset (all
    problems; `refusal` is the first), `image` for a Dockerfile that cannot be planned.
    """
    raise NotImplementedError
