"""`workflow_config:` and the rollout settings below it, for training, entries and evaluations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from platoon.config.model import ConfigModel
from platoon.sampling.model_spec import SamplingSettings
from platoon.train.config_defs.refused import OMIT, Only
from platoon.train.config_defs.values import AtLeastOne, AtLeastZero, PositiveSeconds


class InferenceParams(ConfigModel):
    """How calls sample."""

    temperature: AtLeastZero | None = None
    """sampling temperature, 0 for the likeliest token; unset, 1.0"""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """samples among the likeliest tokens of this probability together; unset, 1.0"""
    top_k: Annotated[int, Field(ge=-1)] | None = None
    """samples among so many likeliest tokens, -1 for all; unset, -1"""
    max_completion_tokens: AtLeastOne | None = None
    """longest reply in tokens, cut to what the context window leaves; unset, 4096"""

    def settings(self) -> SamplingSettings:
        given = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "max_tokens": self.max_completion_tokens,
        }
        return SamplingSettings(**{key: value for key, value in given.items() if value is not None})  # type: ignore[arg-type]


class RolloutConfig(ConfigModel):
    """One rollout."""

    max_steps: AtLeastOne | None = None
    """model calls of the root agent; unset, no bound of the run's"""
    timeout: PositiveSeconds | None = None
    """seconds from the start of a rollout to its grade; unset, no bound"""
    inference_params: InferenceParams = InferenceParams()
    """how calls sample"""
    sampling_precedence: Literal["request", "config"] = "request"
    """whether a call's own sampling settings win over these (`request`) or these over a call's (`config`)"""
    verbose: Annotated[Any, Only(True), OMIT] = True
    step_timeout: Annotated[Any, Only(300), OMIT] = 300
    output_dir: Annotated[Any, Only(None, "rollouts are stored in the run directory"), OMIT] = None
    propagate_root_success: Annotated[Any, Only(False), OMIT] = False
    skip_subagent_reward_computation: Annotated[Any, Only(False), OMIT] = False
    enable_subagent_verifiers: Annotated[Any, Only(True), OMIT] = True
    extra: Annotated[Any, Only({}), OMIT] = Field(default_factory=dict)
    judges: Annotated[Any, Only(True), OMIT] = True


class WorkflowConfig(ConfigModel):
    """One group of rollouts and what its rows are worth."""

    group_size: AtLeastOne = 8
    """rollouts of one task in a group"""
    rollout_config: RolloutConfig = RolloutConfig()
    """settings of one rollout"""
    leave_one_out_baseline: bool = False
    """whether a member's baseline is the mean of the other members alone"""
    filter_errors: bool = True
    """whether actions of calls that reported an error get no positive advantage"""
    filter_zero_advantage_datums: bool = True
    """whether rows without any advantage are left out, where the loss allows"""
    straggler_timeout_seconds: PositiveSeconds | None = None
    """seconds that the rest of a group gets once `straggler_quorum` members have ended, then it is cancelled; unset, nobody is"""
    straggler_quorum: AtLeastOne | None = None
    """members that must have ended before the rest counts as stragglers; needs a timeout; unset, all but one"""
    min_successful_group_size: AtLeastOne = 1
    """members with a reward that a group needs to train"""
    rollout_isolation: Annotated[Any, Only("inprocess"), OMIT] = "inprocess"
    depth_level_weighting: Annotated[Any, Only(False), OMIT] = False
    depth_level_discount_gamma: Annotated[Any, Only(None), OMIT] = None
    subagent_datum_keep_probability: Annotated[Any, Only(1.0), OMIT] = 1.0
    subagent_datum_sampling_seed: Annotated[Any, Only(0), OMIT] = 0
    filter_message_actions: Annotated[Any, Only(False), OMIT] = False
    straggler_policies: Annotated[Any, Only({}, "use straggler_timeout_seconds"), OMIT] = Field(default_factory=dict)
    worker_start_method: Annotated[Any, Only("forkserver"), OMIT] = "forkserver"
    worker_preload: Annotated[Any, Only([]), OMIT] = Field(default_factory=list)
    worker_startup_budget_seconds: Annotated[Any, Only(300), OMIT] = 300
    worker_finalize_grace_seconds: Annotated[Any, Only(120), OMIT] = 120
    worker_parent_grace_seconds: Annotated[Any, Only(60), OMIT] = 60
    worker_termination_grace_seconds: Annotated[Any, Only(10), OMIT] = 10
    worker_launch_concurrent_groups: Annotated[Any, Only(2), OMIT] = 2
    worker_rss_soft_limit_bytes: Annotated[Any, Only(24 * 2**30), OMIT] = 24 * 2**30
    worker_mem_available_floor_bytes: Annotated[Any, Only(0), OMIT] = 0
    worker_binding_poll_seconds: Annotated[Any, Only(5), OMIT] = 5
    worker_unbounded_rollout_budget_seconds: Annotated[Any, Only(86400), OMIT] = 86400
    worker_python_env_isolation: Annotated[Any, Only(False), OMIT] = False


class RolloutLayer(ConfigModel):
    """One rollout, laid over the settings below; null keeps their value."""

    max_steps: AtLeastOne | None = None
    """model calls of the root agent; unset, the layer below"""
    timeout: PositiveSeconds | None = None
    """seconds from the start of a rollout to its grade; unset, the layer below"""
    inference_params: InferenceParams = InferenceParams()
    """how calls sample"""
    sampling_precedence: Literal["request", "config"] | None = None
    """whether a call's own sampling settings win over these (`request`) or these over a call's (`config`); unset, the layer
    below"""


class WorkflowLayer(ConfigModel):
    """Keys of a group, laid over `train.workflow_config`; null keeps the run's value."""

    group_size: AtLeastOne | None = None
    """rollouts of one task in a group; unset, the run's"""
    rollout_config: RolloutLayer = RolloutLayer()
    """settings of one rollout"""
    leave_one_out_baseline: bool | None = None
    """whether a member's baseline is the mean of the other members alone; unset, the run's"""
    filter_errors: bool | None = None
    """whether actions of calls that reported an error get no positive advantage; unset, the run's"""
    straggler_timeout_seconds: PositiveSeconds | None = None
    """seconds that the rest of a group gets once `straggler_quorum` members have ended, then it is cancelled; unset, the run's"""
    straggler_quorum: AtLeastOne | None = None
    """members that must have ended before the rest counts as stragglers; needs a timeout; unset, the run's"""
    min_successful_group_size: AtLeastOne | None = None
    """members with a reward that a group needs to train; unset, the run's"""


def overlay(base: ConfigModel, layer: ConfigModel) -> dict[str, Any]:
    """The fields of `base` with those of `layer` that are not null on top, section by section.

    Null is what a layer does not set: a resolved configuration spells every default out, so whether a key was given cannot matter.
    """
    values = {name: getattr(base, name) for name in type(base).model_fields}
    for name in type(layer).model_fields:
        value, under = getattr(layer, name), values[name]
        if isinstance(value, ConfigModel):
            values[name] = type(under)(**overlay(under, value))
        elif value is not None:
            values[name] = value
    return values


def effective(run: WorkflowConfig, entry: WorkflowLayer) -> WorkflowConfig:
    """The settings of an entry's groups: the run's, with the entry's on top."""
    return WorkflowConfig(**overlay(run, entry))
