"""Starts of a reinforcement-learning run on fake services: real dispatch, credit, rows and steps; only agents are made up."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from platoon.core.outcome import Outcome
from platoon.host.console import Console
from platoon.rows.merge import Call, TrajectoryCalls
from platoon.sampling.model_spec import SamplingSettings
from platoon.testing.fake_tinker import FakeFactory, FakeTinkerService
from platoon.train.checkpoints.dispatch_files import GROUPS_DIR
from platoon.train.checkpoints.kept_groups import GroupStore
from platoon.train.checkpoints.saving import Cadence
from platoon.train.config_defs.run import RunConfig
from platoon.train.dispatch.run_source import DispatchedRollouts
from platoon.train.dispatch.setup import EntryRuntime, build_source
from platoon.train.policy.service import ServiceAddress
from platoon.train.policy.spec import policy_specs
from platoon.train.trainer.rl import RlTrainer
from platoon.train.trainer.run import TrainerRun
from platoon.train.trainer.settings import RunSettings
from platoon.train.workflow.protocol import MemberRequest

TASKS = tuple(f"task-{index}" for index in range(6))
ONE_POLICY: Mapping[str, Any] = {}
THREE_POLICIES: Mapping[str, Any] = {
    "policies": {
        "helper": {"tinker_base_url": "http://helper", "optimizer": {"learning_rate": 1e-3}},
        "judge": {"trainable": False, "tinker_base_url": "http://judge"},
    },
    "agents": {"policy": "main", "roles": {"helper": {"policy": "helper"}, "judge": {"policy": "judge"}}},
}
# Role -> depth of its agent.
AGENTS = {"policy": 0, "helper": 1, "judge": 1}


@dataclass(frozen=True)
class PlayedRollout:
    rollout_id: str
    outcome: Outcome
    trajectories: tuple[TrajectoryCalls, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=lambda: {"prompt": 3, "completion": 4})
    calls: int = 1


class MadeUpRollouts:
    """`Rollouts` whose agents sample the run's policies once or twice and are paid by a digest of what they sampled."""

    def __init__(self, run: TrainerRun, config: RunConfig, faults: Mapping[int, Outcome]) -> None:
        self._run, self._config, self.faults = run, config, faults
        self.source: DispatchedRollouts = build_source(
            config,
            [EntryRuntime(config.environments[0], TASKS, self.play)],
            run_dir=run.settings.run_dir,
            start=run.start,
            steps_done=run.step,
            stop=run.stop.event,
        )
        self.store = GroupStore(run.settings.run_dir / GROUPS_DIR)

    async def prepare(self) -> None: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def play(self, request: MemberRequest) -> PlayedRollout:
        group = request.group
        if group.position in self.faults:
            return PlayedRollout(f"{group.seq}-{request.member}", self.faults[group.position], ())
        roles = [role for role in AGENTS if role == "policy" or role in self._config.agents.roles]
        trajectories = []
        for index, role in enumerate(roles):
            policy = self._config.agents.policy_of(role)
            prompt = np.frombuffer(f"{group.task_id} {role}".encode(), dtype=np.uint8).astype(np.uint32)
            seed = group.position * 1000 + request.member * 10 + index
            sample = await self._run.policies[policy].sampler.sample(prompt, SamplingSettings(seed=seed, max_tokens=8))
            call = Call(prompt, sample.tokens_T, sample.logprobs_T, policy, sample.version)
            trajectories.append(TrajectoryCalls(request.member, index, role, AGENTS[role], 0.0, [call]))
            # Members settle in an order of their own.
            for _ in range(int(sample.tokens_T.sum()) % 5):
                await asyncio.sleep(0)
        told = b"".join(item.calls[0].action.tobytes() for item in trajectories)
        reward = hashlib.sha256(told).digest()[0] / 255
        paid = [TrajectoryCalls(item.member, item.trajectory, item.role, item.depth, reward, item.calls) for item in trajectories]
        return PlayedRollout(f"{group.seq}-{request.member}", Outcome("scored", {"score": reward}, "score"), tuple(paid))


class RlRuns:
    """Starts of one run. services: by address, None for every policy without one of its own."""

    def __init__(self, directory: Path, policies: Mapping[str, Any] = ONE_POLICY, **train: Any) -> None:
        self.run_dir, self._policies, self._train = directory / "run", policies, train
        # By position of the order: what its rollouts end with.
        self.faults: dict[int, Outcome] = {}
        self.services: dict[str | None, FakeTinkerService] = {None: FakeTinkerService("main")}
        for own in policies.get("policies", {}).values():
            address = own["tinker_base_url"]
            self.services[address] = FakeTinkerService(address.removeprefix("http://"))

    @property
    def service(self) -> FakeTinkerService:
        return self.services[None]

    def config(self, steps: int) -> RunConfig:
        train = {
            "model_name": "tiny",
            "renderer_name": "bytes",
            "batch_size": 4,
            "max_training_steps": steps,
            "max_staleness": 0,
            "workflow_config": {"group_size": 2},
            **self._train,
        }
        return RunConfig(
            train=train,
            seed=5,
            deterministic=train["max_staleness"] == 0,
            environments=[{"service": "made_up", "harness": "made_up"}],
            **self._policies,
        )

    def start(self, steps: int, cadence: Cadence) -> TrainerRun:
        config = self.config(steps)
        specs = policy_specs(config)
        trainer = RlTrainer(config, {"default": TASKS}, lambda run: MadeUpRollouts(run, config, self.faults))
        settings = RunSettings(
            self.run_dir,
            "sha256:identity",
            specs,
            {policy: ServiceAddress(spec.model.base_url) for policy, spec in specs.items()},
            config.agents.sampled,
            cadence,
        )
        return TrainerRun(settings, trainer, FakeFactory(self.services), Console(io.StringIO()))

    def train(self, steps: int, cadence: Cadence) -> TrainerRun:
        run = self.start(steps, cadence)
        asyncio.run(asyncio.wait_for(run.run(), 30))
        return run
