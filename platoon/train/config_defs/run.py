"""The whole configuration of a training run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from platoon.config.model import ConfigModel
from platoon.errors import Problem
from platoon.sampling.model_spec import ModelSpec
from platoon.sampling.sample_timeout import TIMEOUT_KEY, sample_timeout
from platoon.train.config_defs import rules
from platoon.train.config_defs.entries import AgentsConfig, EnvironmentConfig, PolicyConfig
from platoon.train.config_defs.trainer_options import trainer_option_problems
from platoon.train.config_defs.training import (
    CLIP_KEYS,
    LOSS_KEYS,
    AdamParams,
    CheckpointConfig,
    StatsConfig,
    TrainConfig,
    TrainingEvalConfig,
    WatchdogConfig,
    default_loss_config,
)
from platoon.train.config_defs.values import MAIN, Count, PolicyId, ServiceAddressText


class RunConfig(ConfigModel):
    """A training configuration."""

    train: TrainConfig
    """the policy `main` and the steps of the run"""
    trainer: Literal["rl", "sft"] = "rl"
    """`rl` learns from rewards of rollouts, `sft` from conversations"""
    trainer_options: dict[str, Any] = Field(default_factory=dict)
    """of `sft`: `data`, one or several files of conversations (JSON lines), and `max_length`, tokens a conversation is cut to"""
    log_path: str | None = None
    """root of run directories; where it and the site's `runs` are set, `--run` takes the site's"""
    tinker_base_url: ServiceAddressText | None = None
    """training service, `local` for an embedded one; unset, `TINKER_BASE_URL`, else the hosted service"""
    environments: list[EnvironmentConfig] = Field(default_factory=list)
    """what the run plays; several entries are a mixture; `sft` needs none"""
    policies: dict[PolicyId, PolicyConfig] = Field(default_factory=dict)
    """policies beside `main`, by id; unset keys take the values of `train`"""
    agents: AgentsConfig = AgentsConfig()
    """which policy the root agent samples, and which each role does"""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """when the run is saved, and what it starts from"""
    eval: TrainingEvalConfig = TrainingEvalConfig()
    """evaluations during training are not in this version: name one in the recipe, or run `platoon eval`"""
    stats: StatsConfig = StatsConfig()
    """names of a run that is started by hand, without `--run`"""
    watchdog: WatchdogConfig = WatchdogConfig()
    """ends a process that no longer moves"""
    seed: Count = 0
    """order of the tasks, and weights of a new adapter where the service trains one; with `deterministic` every sample too"""
    deterministic: bool = False
    """the same rows at every repetition, to the byte; needs `train.max_staleness: 0`"""

    def checks(self) -> Iterator[Problem]:
        """Every broken rule between keys; run on load and again when training starts."""
        yield from rules.plan_problems(self.train, self.trainer)
        yield from trainer_option_problems(self.trainer, self.trainer_options)
        yield from rules.entry_problems(self.train, self.environments, self.trainer)
        yield from rules.credit_problems(self.environments)
        yield from rules.policy_problems(self.train, self.policies, self.agents, self.trainer)
        yield from rules.checkpoint_problems(self.train, self.checkpoint, self.environments, self.policies, self.trainer)
        if self.deterministic:
            yield from rules.determinism_problems(self.train, self.environments, self.policies, self.trainer)

    @property
    def trained(self) -> tuple[str, ...]:
        """Ids of the trained policies, `main` first, the others in the order of the file."""
        return (MAIN, *(name for name, policy in self.policies.items() if policy.trainable))

    @property
    def frozen(self) -> tuple[str, ...]:
        return tuple(name for name, policy in self.policies.items() if not policy.trainable)

    def model_spec(self, policy: str) -> ModelSpec:
        """The frozen value that trainer, gateway and evaluation share. Raises KeyError for an unknown policy,
        ConfigError for a variable that says no timeout."""
        train = self.train
        own = PolicyConfig() if policy == MAIN else self.policies[policy]
        model, renderer = own.model_name or train.model_name, own.renderer_name or train.renderer_name
        same_renderer = own.renderer_name is None and own.model_name is None
        kwargs = own.renderer_kwargs if own.renderer_kwargs is not None else (train.renderer_kwargs if same_renderer else {})
        return ModelSpec(
            model,
            renderer,
            dict(kwargs),
            own.context_window_length or train.context_window_length,
            sample_timeout(
                (f"policies.{policy}.{TIMEOUT_KEY}", own.sample_timeout_seconds),
                (f"train.{TIMEOUT_KEY}", train.sample_timeout_seconds),
            ),
            own.tinker_base_url or self.tinker_base_url,
        )

    def optimizer_of(self, policy: str) -> AdamParams:
        own = self.policies.get(policy)
        return own.optimizer if own is not None and own.optimizer is not None else self.train.optimizer

    def loss_of(self, policy: str) -> tuple[str, dict[str, float]]:
        """Loss and its settings; another loss than `train:`'s does not take over `train:`'s settings."""
        own = self.policies.get(policy)
        loss, common = self.train.loss_fn, self.train.loss_fn_config
        # The default is made for losses that clip: another loss gets none of it.
        settings = {} if LOSS_KEYS.get(loss, CLIP_KEYS) != CLIP_KEYS and common == default_loss_config() else dict(common)
        if own is None:
            return loss, settings
        if own.loss_fn_config is not None:
            return own.loss_fn or loss, dict(own.loss_fn_config)
        return (own.loss_fn, {}) if own.loss_fn not in (None, loss) else (loss, settings)

    def lora_rank_of(self, policy: str) -> int:
        own = self.policies.get(policy)
        return own.lora_rank if own is not None and own.lora_rank is not None else self.train.lora_rank

    def staleness_of(self, policy: str, entry: str | None = None) -> int | None:
        """The bound in versions of a trained policy's rows: the policy's own, else the entry's, else the run's."""
        own = self.policies.get(policy)
        if own is not None and own.max_staleness is not None:
            return own.max_staleness
        for environment in self.environments:
            if environment.label == entry and environment.max_staleness is not None:
                return environment.max_staleness
        return self.train.max_staleness

    @property
    def permits(self) -> int:
        """`train.max_concurrent_rollouts` with its default: one batch of the run's groups."""
        return self.train.max_concurrent_rollouts or self.train.batch_size * self.train.workflow_config.group_size
