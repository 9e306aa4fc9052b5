"""The real gateway and the real rollout over a scripted policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from platoon.core.outcome import Outcome
from platoon.core.protocols import EnvironmentService
from platoon.core.task import Task
from platoon.core.trajectory import Trajectory, TrajectoryCollection
from platoon.episodes.result import RolloutResult
from platoon.episodes.rollout import run_rollout
from platoon.episodes.route import RolloutSettings, Route
from platoon.gateway.service import ModelGateway
from platoon.sampling.model_spec import ModelSpec, SamplingSettings
from platoon.sampling.policy import PolicyRuntime
from platoon.sampling.renderer import Renderer
from platoon.sampling.sampler import Sampler
from platoon.testing.memory_service import MemoryService
from platoon.testing.toy_model import TOY_MODEL_NAME, TOY_RENDERER_NAME, toy_renderer


def make_gateway(
    policy: Sampler | Mapping[str, Sampler],
    *,
    renderer: Renderer | None = None,
    model_name: str = TOY_MODEL_NAME,
    context_window_length: int | None = None,
    defaults: SamplingSettings | None = None,
) -> ModelGateway:
    """A gateway that serves one policy as `main`, or several by id."""
    policies = policy if isinstance(policy, Mapping) else {"main": policy}
    spec = ModelSpec(model_name, TOY_RENDERER_NAME, context_window_length=context_window_length)
    used = renderer if renderer is not None else toy_renderer()
    return ModelGateway(
        {name: PolicyRuntime(name, spec, sampler, used, defaults or SamplingSettings()) for name, sampler in policies.items()}
    )


@dataclass(frozen=True)
class EpisodeRun:
    """A finished episode with what it was made of. policy: the scripted one, with its calls."""

    result: RolloutResult
    gateway: ModelGateway
    policy: Any

    @property
    def collection(self) -> TrajectoryCollection:
        return self.result.collection

    @property
    def trajectories(self) -> list[Trajectory]:
        return list(self.collection.trajectories.values())

    @property
    def root(self) -> Trajectory:
        return self.collection.root

    @property
    def children(self) -> list[Trajectory]:
        return self.trajectories[1:]

    @property
    def outcome(self) -> Outcome:
        return self.result.outcome

    @property
    def reward(self) -> float | None:
        return self.outcome.reward


async def run_episode(
    task: str | Task,
    *,
    harness: str,
    policy: Sampler,
    service: EnvironmentService | None = None,
    harness_options: Mapping[str, Any] | None = None,
    program: str = "single",
    max_steps: int | None = None,
    settings: RolloutSettings | None = None,
    route: Route | None = None,
    output_dir: Path | None = None,
    context_window_length: int | None = None,
) -> EpisodeRun:
    """Plays one task through the real rollout; by default in a `MemoryService` that scores 1."""
    task_id = task if isinstance(task, str) else task.id
    used = service or MemoryService({task_id: task} if isinstance(task, Task) else {})
    chosen = route or Route(harness=harness, harness_options=dict(harness_options or {}), program=program)
    base = settings or RolloutSettings()
    gateway = make_gateway(policy, context_window_length=context_window_length)
    try:
        result = await run_rollout(
            task_id,
            route=chosen,
            service=used,
            gateway=gateway,
            settings=base if max_steps is None else replace(base, max_steps=max_steps),
            output_dir=output_dir,
        )
    finally:
        await gateway.close()
    return EpisodeRun(result, gateway, policy)
