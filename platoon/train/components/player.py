"""Plays rollouts of an entry: the one place where a run's configuration meets `episodes`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from platoon.episodes.result import RolloutResult
from platoon.episodes.rollout import run_rollout
from platoon.episodes.route import HarnessExit, RolloutSettings, Route
from platoon.episodes.storage import TokenTable
from platoon.gateway.seeds import SeedKey
from platoon.gateway.service import ModelGateway
from platoon.train.components.entries import EntryTasks
from platoon.train.config_defs.entries import EnvironmentConfig
from platoon.train.config_defs.rollout import RolloutConfig

log = logging.getLogger(__name__)


def route_of(entry: EnvironmentConfig, *, training: bool) -> Route:
    """How an entry's tasks are played; every split but train takes the entry's `eval_overrides` on top."""
    options = dict(entry.harness_options)
    if not training:
        options |= entry.eval_overrides.harness_options
    assert entry.service is not None
    assert entry.harness is not None
    return Route(
        entry=entry.label,
        service_name=entry.service,
        harness=entry.harness,
        harness_options=options,
        placement=entry.placement,
        program=entry.program,
        on_context_overflow=entry.on_context_overflow,
        on_harness_exit=HarnessExit(entry.on_harness_exit.timeout, entry.on_harness_exit.crash),
    )


def rollout_settings(config: RolloutConfig) -> RolloutSettings:
    return RolloutSettings(
        max_steps=config.max_steps,
        timeout_s=config.timeout,
        sampling=config.inference_params.settings(),
        sampling_precedence=config.sampling_precedence,
    )


@dataclass(frozen=True)
class Player:
    """Plays rollouts of one entry. policy: of the root agent. roles: policy by role. seed: None lets the service choose."""

    entry: EntryTasks
    route: Route
    settings: RolloutSettings
    gateway: ModelGateway
    policy: str
    roles: Mapping[str, str]
    seed: int | None

    async def play(self, task_id: str, *, position: int, member: int, output_dir: Path | None) -> RolloutResult:
        """One rollout. position and member: what its calls' seeds depend on. Its files lie below `output_dir`, the tokens too."""
        result = await run_rollout(
            task_id,
            route=self.route,
            service=self.entry.service,
            gateway=self.gateway,
            settings=self.settings,
            policy=self.policy,
            roles=self.roles,
            seed_key=SeedKey(self.seed, position, member) if self.seed is not None else None,
            output_dir=output_dir,
        )
        if output_dir is not None:
            await asyncio.to_thread(_store_tokens, output_dir, result, member)
        return result


def _store_tokens(output_dir: Path, result: RolloutResult, member: int) -> None:
    """What was sampled, as rows; a rollout whose tokens cannot be written still counts."""
    try:
        with TokenTable(output_dir / "tokens" / f"{result.rollout_id}.parquet") as table:
            table.append(result.rollout_id, result.task.id, result.outcome, result.recorded, member=member)
    except OSError as error:
        log.warning("the tokens of rollout %s could not be stored: %s", result.rollout_id, error)
