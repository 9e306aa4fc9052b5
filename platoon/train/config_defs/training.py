"""`train:`, `checkpoint:`, `stats:`, `watchdog:` and `eval:` of a training configuration."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from platoon import exits
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
    LoraRank,
    PositiveSeconds,
    RendererName,
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


def _known_loss(name: str) -> str:
    if name not in LOSSES:
        # By the key alone, so that it is told beside every other key's fault.
        raise ValueError(f"must be one of {', '.join(LOSSES)}")
    return name


LossName = Annotated[str, AfterValidator(_known_loss)]


class AdamParams(ConfigModel):
    """Adam."""

    learning_rate: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] = 3e-5
    """step size; 0 trains nothing"""
    beta1: Fraction = 0.9
    """decay of the mean of gradients"""
    beta2: Fraction = 0.95
    """decay of the mean of squared gradients"""
    eps: AtLeastZero = 1e-8
    """added to the denominator"""
    weight_decay: AtLeastZero = 0.0
    """decoupled decay of the weights, times the learning rate"""
    grad_clip_norm: AtLeastZero = 0.0
    """largest norm of the gradient; 0 turns clipping off"""


def default_loss_config() -> dict[str, float]:
    return {"clip_low_threshold": 0.0, "clip_high_threshold": 5.0}


class TrainConfig(ConfigModel):
    """The policy `main` and the steps of the run."""

    model_name: Annotated[str, Field(min_length=1)]
    """base model, as the training service names it"""
    renderer_name: RendererName
    """what turns messages into tokens: `chat_template` (the model's own), or a renderer of the tinker cookbook"""
    renderer_kwargs: dict[str, Any] = Field(default_factory=dict)
    """settings of the renderer; an unknown one is an error"""
    sample_timeout_seconds: PositiveSeconds | None = None
    """longest wait for one sample, in seconds; unset, `TINKER_SAMPLE_TIMEOUT_SECONDS`, else 600"""
    context_window_length: AtLeastOne | None = None
    """tokens of prompt and reply together; unset, what the service tells; prompts beyond it are refused"""
    batch_size: Concurrency = 32
    """groups a step (`rl`), conversations a step (`sft`)"""
    num_epochs: AtLeastOne | None = None
    """passes over the train tasks; with `max_training_steps` the shorter plan counts, one of them is required"""
    max_training_steps: AtLeastOne | None = None
    """steps of the whole run; a larger number extends a run that is done"""
    num_minibatches: AtLeastOne = 1
    """optimizer updates a step; divides `batch_size`"""
    num_microbatches: AtLeastOne = 1
    """forward and backward calls an update; divides the groups of an update"""
    max_staleness: Count | None = None
    """publications that may lie between sampling and training, which also bounds the groups in flight to (bound + 1) batches;
    0 keeps a step's groups in it; unset, no bound"""
    stale_filter: Literal["group", "datum"] = "group"
    """what goes when it is too old: the whole group, or its old rows alone"""
    optimizer: AdamParams = AdamParams()
    """Adam settings"""
    loss_fn: LossName = "cispo"
    """loss of `rl`: `cispo`, `ppo`, `importance_sampling`, `dro` or `gspo`"""
    loss_fn_config: dict[str, float] = Field(default_factory=default_loss_config)
    """settings of the loss, replaced whole: `clip_low_threshold` and `clip_high_threshold` of cispo, ppo and gspo, `beta` of dro"""
    lora_rank: LoraRank = 32
    """rank of the adapter"""
    workflow_config: WorkflowConfig = WorkflowConfig()
    """one group of rollouts and what its rows are worth"""
    max_concurrent_rollouts: Concurrency | None = None
    """rollouts that run at once; holds one group of every entry; unset, `batch_size` times `group_size`"""
    permit_release: Literal["rollout", "group"] = "rollout"
    """whether each rollout of a group frees its place when it ends, or the group all places together"""
    task_sampler: Literal["auto", "weighted", "uniform"] = "auto"
    """order of tasks: `uniform` shuffles all tasks together, `weighted` mixes entries by their weights, `auto` takes the first
    for one entry and the second for several"""
    forward_backward_timeout_seconds: PositiveSeconds = 5400.0
    """longest wait for the gradients of one update, in seconds"""
    optim_step_timeout_seconds: PositiveSeconds = 300.0
    """longest wait for one optimizer step, in seconds"""
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
    """When the run is saved, and what it starts from."""

    every: Count | None = None
    """permanent saves, every so many steps or epochs; 0 for none; unset, 1 where `strategy` is set, else 0"""
    strategy: Literal["step", "epoch"] | None = None
    """unit of `every`; unset, steps"""
    recovery_every: AtLeastOne | None = None
    """full saves to resume from, every so many steps; unset, none but those at start and end"""
    keep_recovery: AtLeastOne | None = None
    """newest recovery saves that are kept; unset, all; needs `train.max_staleness` in `rl`"""
    load_checkpoint_path: str | None = None
    """`tinker://` path of the weights a new run starts from; a recipe's `from` fills it"""
    load_optimizer_state: bool = False
    """takes the optimizer state of `load_checkpoint_path` too"""

    @property
    def permanent_every(self) -> int:
        """`every` with its default; 0 for no permanent saves."""
        return self.every if self.every is not None else int(self.strategy is not None)


class StatsConfig(ConfigModel):
    """Names of a run that is started by hand, without `--run`."""

    experiment_name: DirectoryName | None = None
    """first part of the run's directory below `log_path`; unset, the name of the file"""
    trial_name: DirectoryName = "run"
    """second part of the run's directory"""
    wandb: Annotated[Any, Only(None, "metrics are in metrics.jsonl of the run directory"), OMIT] = None


# Of a run that ended by itself, whatever the watchdog did: a scheduler takes 0 for done, and 75 for worth another try.
OTHER_ENDS = sorted(exits.MEANINGS.keys() - {exits.WATCHDOG, exits.FAILED})


def _watchdog_code(code: int) -> int:
    if code in OTHER_ENDS:
        codes = ", ".join(map(str, OTHER_ENDS))
        raise ValueError(f"must be none of {codes}, which mean another end: {code} is {exits.MEANINGS[code]!r}")
    return code


class WatchdogConfig(ConfigModel):
    """Ends a process that no longer moves."""

    enabled: bool = True
    """whether a process whose event loop stands still is ended, without cleanup"""
    timeout_seconds: PositiveSeconds = 600.0
    """seconds without a beat that end the process"""
    exit_code: Annotated[int, Field(ge=1, le=255), AfterValidator(_watchdog_code)] = exits.WATCHDOG
    """code it ends with; none that means another end of a run"""
    max_restarts: Annotated[Any, Only(0), OMIT] = 0


class TrainingEvalConfig(ConfigModel):
    """`eval:` of a training configuration: evaluations during training are not in this version; `platoon eval` is."""

    every: Annotated[Any, Only(0, "add an evaluation of the run to the recipe, or run platoon eval"), OMIT] = 0
    strategy: Annotated[Any, Only("step"), OMIT] = "step"
    at_start: Annotated[Any, Only(False), OMIT] = False
    max_concurrent_rollouts: Annotated[Any, Only(None), OMIT] = None
    workflow_config: Annotated[Any, Only({}), OMIT] = Field(default_factory=dict)
