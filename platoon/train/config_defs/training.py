"""`train:`, `checkpoint:`, `stats:`, `watchdog:` and `eval:` of a training configuration."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from platoon.config.model import ConfigModel
from platoon.train.config_defs.refused import OMIT, Only, Removed
from platoon.train.config_defs.rollout import WorkflowConfig
from platoon.train.config_defs.values import (
    AtLeastOne,
    AtLeastZero,
    Concurrency,
    Count,
    DirectoryName,
    Fraction,
    PositiveSeconds,
)

LOSSES = ("cispo", "ppo", "importance_sampling", "dro", "gspo")
ZERO_PRESERVING_LOSSES = ("cispo", "ppo", "importance_sampling")
CLIP_KEYS = frozenset({"clip_low_threshold", "clip_high_threshold"})
# The settings each loss reads; a service refuses others.
LOSS_KEYS = {
    "cispo": CLIP_KEYS,
    "ppo": CLIP_KEYS,
    "gspo": CLIP_KEYS,
    "dro": frozenset({"beta"}),
    "importance_sampling": frozenset[str](),
}


class AdamParams(ConfigModel):
    """grad_clip_norm 0 turns clipping off."""

    learning_rate: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] = 3e-5
    beta1: Fraction = 0.9
    beta2: Fraction = 0.95
    eps: AtLeastZero = 1e-8
    weight_decay: AtLeastZero = 0.0
    grad_clip_norm: AtLeastZero = 0.0


def default_loss_config() -> dict[str, float]:
    return {"clip_low_threshold": 0.0, "clip_high_threshold": 5.0}


class TrainConfig(ConfigModel):
    """The run's main policy and its steps. batch_size: groups a step. max_staleness: versions, null for no bound and no horizon."""

    model_name: Annotated[str, Field(min_length=1)]
    renderer_name: Annotated[str, Field(min_length=1)]
    renderer_kwargs: dict[str, Any] = Field(default_factory=dict)
    sample_timeout_seconds: PositiveSeconds | None = None
    context_window_length: AtLeastOne | None = None
    batch_size: AtLeastOne = 32
    num_epochs: AtLeastOne | None = None
    max_training_steps: AtLeastOne | None = None
    num_minibatches: AtLeastOne = 1
    num_microbatches: AtLeastOne = 1
    max_staleness: Count | None = None
    stale_filter: Literal["group", "datum"] = "group"
    optimizer: AdamParams = AdamParams()
    loss_fn: str = "cispo"
    loss_fn_config: dict[str, float] = Field(default_factory=default_loss_config)
    lora_rank: AtLeastOne = 32
    workflow_config: WorkflowConfig = WorkflowConfig()
    max_concurrent_rollouts: Concurrency | None = None
    permit_release: Literal["rollout", "group"] = "rollout"
    task_sampler: Literal["auto", "weighted", "uniform"] = "auto"
    forward_backward_timeout_seconds: PositiveSeconds = 5400.0
    optim_step_timeout_seconds: PositiveSeconds = 300.0
    stepping: Annotated[Any, Only("lockstep"), OMIT] = "lockstep"
    max_starting_rollouts: Annotated[Any, Only(None), OMIT] = None
    label_by: Annotated[Any, Only(None), OMIT] = None
    rollout_group_limits: Annotated[Any, Only({}), OMIT] = Field(default_factory=dict)
    task_sampler_options: Annotated[Any, Only({}, "the static samplers take none"), OMIT] = Field(default_factory=dict)
    group_admission: Annotated[Any, Only("all"), OMIT] = "all"
    group_admission_options: Annotated[Any, Only({}), OMIT] = Field(default_factory=dict)
    refill: Annotated[Any, Only(None, "it belongs to admission rules other than all"), OMIT] = None
    rollout_group_key: Annotated[Any, Removed("use train.label_by"), OMIT] = None
    num_concurrent_rollout_workflow_workers: Annotated[
        Any, Removed("use train.max_concurrent_rollouts, times group_size"), OMIT
    ] = None
    task_order: Annotated[Any, Removed("use train.task_sampler"), OMIT] = None
    on_stale: Annotated[Any, Removed("stale groups are dropped and counted"), OMIT] = None


class CheckpointConfig(ConfigModel):
    """Saves. every: permanent ones in units of `strategy`, 0 for none, null for 0 (1 when `strategy` is set)."""

    every: Count | None = None
    strategy: Literal["step", "epoch"] | None = None
    recovery_every: AtLeastOne | None = None
    keep_recovery: AtLeastOne | None = None
    load_checkpoint_path: str | None = None
    load_optimizer_state: bool = False

    @property
    def permanent_every(self) -> int:
        """`every` with its default; 0 for no permanent saves."""
        return self.every if self.every is not None else int(self.strategy is not None)


class StatsConfig(ConfigModel):
    """Names of the run below `log_path`."""

    experiment_name: DirectoryName | None = None
    trial_name: DirectoryName = "run"
    wandb: Annotated[Any, Only(None, "metrics are in metrics.jsonl of the run directory"), OMIT] = None


class WatchdogConfig(ConfigModel):
    """Ends the process when nothing beat for `timeout_seconds`."""

    enabled: bool = True
    timeout_seconds: PositiveSeconds = 600.0
    exit_code: Annotated[int, Field(ge=0, le=255)] = 2
    max_restarts: Annotated[Any, Only(0), OMIT] = 0


class TrainingEvalConfig(ConfigModel):
    """`eval:` of a training configuration: evaluations during training are not in this version; `platoon eval` is."""

    every: Annotated[Any, Only(0, "add an evaluation of the run to the recipe, or run platoon eval"), OMIT] = 0
    strategy: Annotated[Any, Only("step"), OMIT] = "step"
    at_start: Annotated[Any, Only(False), OMIT] = False
    max_concurrent_rollouts: Annotated[Any, Only(None), OMIT] = None
    workflow_config: Annotated[Any, Only({}), OMIT] = Field(default_factory=dict)
