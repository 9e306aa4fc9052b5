"""The rollouts of a run on real environments: gateway, players and source of one start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from platoon.episodes.result import RolloutResult
from platoon.gateway.service import ModelGateway
from platoon.sampling.policy import PolicyRuntime
from platoon.sampling.renderer import Renderer
from platoon.train.checkpoints.dispatch_files import GROUPS_DIR
from platoon.train.checkpoints.kept_groups import GroupStore
from platoon.train.components.entries import EntryTasks
from platoon.train.components.player import Player, rollout_settings, route_of
from platoon.train.config_defs.rollout import effective
from platoon.train.config_defs.run import RunConfig
from platoon.train.dispatch.run_source import DispatchedRollouts
from platoon.train.dispatch.setup import EntryRuntime, build_source
from platoon.train.trainer.api import Run
from platoon.train.trainer.renderers import renderer_of
from platoon.train.workflow.protocol import MemberRequest

ROLLOUTS_DIR = "rollouts/train"


class EnvironmentRollouts:
    """`rl.Rollouts` over environment entries. Rollouts are stored by the version of main that they began with."""

    def __init__(self, run: Run, config: RunConfig, entries: Sequence[EntryTasks]) -> None:
        self._run, self._config, self._entries = run, config, entries
        self._renderers: Mapping[str, Renderer] = {}
        self._players: dict[str, Player] = {}
        self._gateway: ModelGateway | None = None
        self.store = GroupStore(run.settings.run_dir / GROUPS_DIR)
        self.source: DispatchedRollouts = build_source(
            config,
            [EntryRuntime(entry.config, entry.tasks, partial(self._play, entry.label)) for entry in entries],
            run_dir=run.settings.run_dir,
            start=run.start,
            steps_done=run.step,
            stop=run.stop.event,
            report=run.console.say,
            now=run.clock,
        )

    async def prepare(self) -> None:
        """Builds the renderer of every policy that agents sample. Raises ConfigError for one that is none."""
        sampled = [policy.id for policy in self._run.policies.values() if policy.sampled]
        self._renderers = {policy: await renderer_of(self._run, policy) for policy in sampled}

    async def open(self) -> None:
        """Builds the gateway over every policy that agents sample, and a player an entry."""
        sampled = [policy for policy in self._run.policies.values() if policy.sampled]
        runtimes = {
            policy.id: PolicyRuntime(policy.id, await policy.served_model(), policy.sampler, self._renderers[policy.id])
            for policy in sampled
        }
        self._gateway = gateway = ModelGateway(runtimes)
        config = self._config
        roles = {role: config.agents.policy_of(role) for role in config.agents.roles}
        seed = config.seed if config.deterministic else None
        for entry in self._entries:
            settings = effective(config.train.workflow_config, entry.config.workflow_config)
            route, rollout = route_of(entry.config, training=True), rollout_settings(settings.rollout_config)
            self._players[entry.label] = Player(entry, route, rollout, gateway, config.agents.policy, roles, seed)

    async def close(self) -> None:
        if self._gateway is not None:
            await self._gateway.close()

    async def _play(self, label: str, request: MemberRequest) -> RolloutResult:
        version = self._run.policies[self._config.agents.policy].version
        return await self._players[label].play(
            request.group.task_id,
            position=request.group.position,
            member=request.member,
            output_dir=self._run.settings.run_dir / ROLLOUTS_DIR / f"{version:06d}",
        )
