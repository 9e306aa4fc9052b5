"""What a policy is, before anything opens: one frozen value per policy, read once from the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from platoon.sampling.model_spec import ModelSpec

# The policy of `train:`; every other one stands under `policies:`.
MAIN = "main"
# The address that means "a service of the run's own".
LOCAL = "local"


@dataclass(frozen=True)
class AdamSettings:
    """Adam's parameters, all six sent with every step. grad_clip_norm 0 is off."""

    learning_rate: float = 3e-5
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0


@dataclass(frozen=True)
class LossSettings:
    """loss_fn: a loss the service knows. config: sent as it stands, the thresholds always explicit."""

    loss_fn: str = "cispo"
    config: Mapping[str, float] = field(default_factory=lambda: {"clip_low_threshold": 0.0, "clip_high_threshold": 5.0})


@dataclass(frozen=True)
class PolicySpec:
    """One policy, trained or frozen.

    base_url: None for the run's service, `local` for an embedded one. load_checkpoint_path: state to start a trained policy from,
    sampler weights to serve a frozen one from. max_staleness: None without a bound. seed: of a new adapter's weights.
    """

    id: str
    model: ModelSpec
    trainable: bool = True
    base_url: str | None = None
    lora_rank: int = 32
    optimizer: AdamSettings = field(default_factory=AdamSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    max_staleness: int | None = None
    load_checkpoint_path: str | None = None
    load_optimizer_state: bool = False
    seed: int | None = None

    @property
    def prefix(self) -> str:
        """What metric names of this policy begin with: nothing for main."""
        return "" if self.id == MAIN else f"policies/{self.id}/"
