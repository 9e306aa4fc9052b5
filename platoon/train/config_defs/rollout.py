"""`workflow_config:` and the rollout settings below it, for training, entries and evaluations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from platoon.config.model import ConfigModel
from platoon.sampling.model_spec import SamplingSettings
from platoon.train.config_defs.refused import OMIT, Only
from platoon.train.config_defs.values import AtLeastOne, AtLeastZero, PositiveSeconds


class InferenceParams(ConfigModel):
    """How calls sample; null takes the gateway's default (1.0, 1.0, -1, 4096)."""

    temperature: AtLeastZero | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    max_completion_tokens: AtLeastOne | None = None

    def settings(self) -> SamplingSettings:
        given = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "max_tokens": self.max_completion_tokens,
        }
        return SamplingSettings(**{key: value for key, value in given.items() if value is not None})  # type: ignore[arg-type]


class RolloutConfig(ConfigModel):
    """One rollout. max_steps: model calls of the root. timeout: seconds from start to grade, null for no bound."""

    max_steps: AtLeastOne | None = None
    timeout: PositiveSeconds | None = None
    inference_params: InferenceParams = InferenceParams()
    sampling_precedence: Literal["request", "config"] = "request"
    verbose: Annotated[Any, Only(True), OMIT] = True
    step_timeout: Annotated[Any, Only(300), OMIT] = 300
    output_dir: Annotated[Any, Only(None, "rollouts are stored in the run directory"), OMIT] = None
    propagate_root_success: Annotated[Any, Only(False), OMIT] = False
    skip_subagent_reward_computation: Annotated[Any, Only(False), OMIT] = False
    enable_subagent_verifiers: Annotated[Any, Only(True), OMIT] = True
    extra: Annotated[Any, Only({}), OMIT] = Field(default_factory=dict)
    judges: Annotated[Any, Only(True), OMIT] = True


class WorkflowConfig(ConfigModel):
    """`train.workflow_config`: one group of rollouts and what its rows are worth."""

    group_size: AtLeastOne = 8
    rollout_config: RolloutConfig = RolloutConfig()
    leave_one_out_baseline: bool = False
    filter_errors: bool = True
    filter_zero_advantage_datums: bool = True
    straggler_timeout_seconds: PositiveSeconds | None = None
    straggler_quorum: AtLeastOne | None = None
    min_successful_group_size: AtLeastOne = 1
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
    """What an entry or an evaluation lays over `rollout_config`; null keeps the value below."""

    max_steps: AtLeastOne | None = None
    timeout: PositiveSeconds | None = None
    inference_params: InferenceParams = InferenceParams()
    sampling_precedence: Literal["request", "config"] | None = None


class WorkflowLayer(ConfigModel):
    """What an entry lays over `workflow_config`: keys of a group, none of a step; null keeps the value below."""

    group_size: AtLeastOne | None = None
    rollout_config: RolloutLayer = RolloutLayer()
    leave_one_out_baseline: bool | None = None
    filter_errors: bool | None = None
    straggler_timeout_seconds: PositiveSeconds | None = None
    straggler_quorum: AtLeastOne | None = None
    min_successful_group_size: AtLeastOne | None = None


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
