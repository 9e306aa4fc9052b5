"""What a policy is, before anything opens: one frozen value per policy, read once from the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from platoon.sampling.model_spec import ModelSpec
from platoon.train.config_defs.run import RunConfig
from platoon.train.config_defs.training import AdamParams
from platoon.train.config_defs.values import MAIN
from platoon.train.objectives.loss import LossSettings

__all__ = ["LOCAL", "MAIN", "PolicySpec", "policy_specs"]

# The address that means "a service of the run's own".
LOCAL = "local"


@dataclass(frozen=True)
class PolicySpec:
    """One policy, trained or frozen.

    model: base_url None there is the SDK's default address, `local` an embedded service. load_checkpoint_path: state to start a
    trained policy from, sampler weights to serve a frozen one from. seed: of a new adapter's weights, where the service
    trains one.
    """

    id: str
    model: ModelSpec
    trainable: bool = True
    lora_rank: int = 32
    optimizer: AdamParams = field(default_factory=AdamParams)
    loss: LossSettings = field(default_factory=LossSettings)
    load_checkpoint_path: str | None = None
    load_optimizer_state: bool = False
    seed: int | None = None

    @property
    def prefix(self) -> str:
        """What metric names of this policy begin with: nothing for main."""
        return "" if self.id == MAIN else f"policies/{self.id}/"


def policy_specs(config: RunConfig, parent: Mapping[str, str] | None = None) -> dict[str, PolicySpec]:
    """Every policy of a run, the trained ones first and main at their head.

    parent: state paths, by policy, of the checkpoint a new run starts from; they stand in for `load_checkpoint_path`. The optimizer
    starts fresh then.
    """
    return {policy: _spec(config, policy, parent or {}) for policy in (*config.trained, *config.frozen)}


def _spec(config: RunConfig, policy: str, parent: Mapping[str, str]) -> PolicySpec:
    own = config.policies.get(policy)
    section = config.checkpoint if own is None else own
    path, with_optimizer = section.load_checkpoint_path, section.load_optimizer_state
    trainable = own is None or own.trainable
    if trainable and policy in parent:
        path, with_optimizer = parent[policy], False
    return PolicySpec(
        policy,
        config.model_spec(policy),
        trainable,
        config.lora_rank_of(policy),
        config.optimizer_of(policy),
        LossSettings(*config.loss_of(policy)),
        path,
        with_optimizer,
        config.seed,
    )
