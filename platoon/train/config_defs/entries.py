"""`environments:`, `policies:` and `agents:`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from platoon.config.model import ConfigModel
from platoon.train.config_defs.refused import OMIT, Only
from platoon.train.config_defs.rollout import RolloutLayer, WorkflowLayer
from platoon.train.config_defs.training import AdamParams, LossName
from platoon.train.config_defs.values import (
    MAIN,
    AtLeastOne,
    Count,
    Finite,
    LoraRank,
    PolicyId,
    PositiveSeconds,
    RendererName,
    ServiceAddressText,
)


class HarnessExitPolicy(ConfigModel):
    """What a harness that ends by itself means for the episode."""

    timeout: Literal["grade", "exclude"] = "exclude"
    """what an agent that ran out of time is: graded, with reason `agent_timeout`, or excluded as timed out"""
    crash: Literal["grade", "grade_if_gateway_clean", "exclude"] = "exclude"
    """what a harness that ended with an error is: graded, graded unless a model call failed too, or excluded"""


class EvalWorkflowConfig(ConfigModel):
    """The part of `workflow_config` that an entry changes for evaluation."""

    rollout_config: RolloutLayer = RolloutLayer()
    """settings of a rollout, laid over the entry's"""


class EvalOverrides(ConfigModel):
    """What an entry changes for every split but train."""

    harness_options: dict[str, Any] = Field(default_factory=dict)
    """options laid over the entry's own `harness_options`"""
    workflow_config: EvalWorkflowConfig = EvalWorkflowConfig()
    """what changes of the entry's rollouts"""


class EnvironmentConfig(ConfigModel):
    """One environment entry: tasks, the agent that plays them, and how its groups are made."""

    name: Annotated[str, Field(min_length=1)] | None = None
    """label in draws, metrics and files; `default` without one; required and unique among several entries, without `::`"""
    service: Annotated[str, Field(min_length=1)] | None = None
    """environment service that serves the tasks: a built-in name (`harbor`) or `module:Class`"""
    service_kwargs: dict[str, Any] = Field(default_factory=dict)
    """options of the service; those of `harbor` are listed below"""
    harness: Annotated[str, Field(min_length=1)] | None = None
    """agent that plays the tasks: a built-in name, `module:function`, or the path of a TOML spec"""
    harness_options: dict[str, Any] = Field(default_factory=dict)
    """options of the harness, as it declares them"""
    placement: Literal["auto", "task_sandbox", "local"] = "auto"
    """where a harness program runs; `auto` and `task_sandbox` put it into the task's sandbox, `local` is not served"""
    program: str = "single"
    """how the agents of an episode are arranged; `single` is the one there is"""
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["tasks"] = "tasks"
    """share of the draws in a mixture: a positive number, or one share a task; one kind in all entries"""
    seed: int = 0
    """shuffles the tasks of this entry in a mixture, added to the run's seed"""
    exclude_tasks: list[str] = Field(default_factory=list)
    """task ids that are never drawn; one that matches nothing is an error"""
    credit: str | None = None
    """how rewards become advantages: `group` (against the group's mean) or `keyed` (against agents of the same key); unset,
    `group` for one trained policy and `keyed` for several"""
    credit_options: dict[str, Any] = Field(default_factory=dict)
    """of `keyed`: `key`, a list of `task`, `policy`, `role` and `depth`, and `leave_one_out`"""
    workflow_config: WorkflowLayer = WorkflowLayer()
    """what this entry changes of `train.workflow_config`"""
    max_staleness: Count | None = None
    """staleness bound of this entry's rows, in versions; at least the run's, which must be set; unset, the run's"""
    success_threshold: Finite = 1.0
    """lowest reward that counts as passed, in statistics alone"""
    on_context_overflow: Literal["grade", "exclude"] = "grade"
    """what a run is that failed after its context window overflowed: graded, or excluded as an error"""
    on_harness_exit: HarnessExitPolicy = HarnessExitPolicy()
    """what a harness that ends by itself means for the episode"""
    eval_overrides: EvalOverrides = EvalOverrides()
    """what this entry changes for every split but train"""
    env: Annotated[Any, Only(None), OMIT] = None
    package: Annotated[Any, Only(None), OMIT] = None
    trainer_config: Annotated[Any, Only(None), OMIT] = None
    dataset_loader: Annotated[Any, Only(None, "name a service"), OMIT] = None
    eval_dataset_loader: Annotated[Any, Only(None, "name a service"), OMIT] = None
    task_loader: Annotated[Any, Only(None, "name a service"), OMIT] = None
    rollout: Annotated[Any, Only(None, "name a harness"), OMIT] = None
    eval_rollout: Annotated[Any, Only(None, "name a harness"), OMIT] = None
    reward_processor: Annotated[Any, Only(None), OMIT] = None
    workflow: Annotated[Any, Only("group_rollout"), OMIT] = "group_rollout"
    workflow_kwargs: Annotated[Any, Only({}), OMIT] = Field(default_factory=dict)
    eval_workflow_kwargs: Annotated[Any, Only({}), OMIT] = Field(default_factory=dict)
    dataset_kwargs: Annotated[Any, Only({}, "use service_kwargs"), OMIT] = Field(default_factory=dict)
    eval_dataset_kwargs: Annotated[Any, Only({}, "use service_kwargs"), OMIT] = Field(default_factory=dict)
    builtins: Annotated[Any, Only("default"), OMIT] = "default"
    task_sampler: Annotated[Any, Only(None), OMIT] = None
    task_sampler_options: Annotated[Any, Only({}), OMIT] = Field(default_factory=dict)
    group_admission: Annotated[Any, Only(None), OMIT] = None
    group_admission_options: Annotated[Any, Only({}), OMIT] = Field(default_factory=dict)
    agents: Annotated[Any, Only(None), OMIT] = None

    @property
    def label(self) -> str:
        """How the entry is called in draws, metrics and files."""
        return self.name or "default"


class PolicyConfig(ConfigModel):
    """A policy beside `main`."""

    trainable: bool = True
    """whether the policy learns; a frozen one is sampled only"""
    model_name: Annotated[str, Field(min_length=1)] | None = None
    """base model; unset, that of `train`"""
    renderer_name: RendererName | None = None
    """what turns messages into tokens; unset, that of `train`"""
    renderer_kwargs: dict[str, Any] | None = None
    """settings of the renderer; unset, those of `train` where model and renderer are its own"""
    context_window_length: AtLeastOne | None = None
    """tokens of prompt and reply together; unset, that of `train`"""
    sample_timeout_seconds: PositiveSeconds | None = None
    """longest wait for one sample, in seconds; unset, that of `train`"""
    tinker_base_url: ServiceAddressText | None = None
    """training service of this policy, `local` for an embedded one of its own; unset, the run's"""
    load_checkpoint_path: str | None = None
    """`tinker://` path a new run starts this policy from; of a frozen one, the weights to serve in place of the base model"""
    load_optimizer_state: bool = False
    """takes the optimizer state of `load_checkpoint_path` too"""
    lora_rank: LoraRank | None = None
    """rank of the adapter; unset, that of `train`"""
    optimizer: AdamParams | None = None
    """Adam settings; unset, those of `train`"""
    loss_fn: LossName | None = None
    """loss; unset, that of `train`"""
    loss_fn_config: dict[str, float] | None = None
    """settings of the loss, replaced whole; unset, those of `train` where the loss is the same"""
    max_staleness: Count | None = None
    """staleness bound of this policy's rows, in versions; unset, the entry's, then the run's"""
    batch_size: Annotated[Any, Only(None, "it needs stepping independent"), OMIT] = None
    checkpoint: Annotated[Any, Only(None, "it needs stepping independent"), OMIT] = None


class RoleConfig(ConfigModel):
    """What agents opened with this role sample."""

    policy: PolicyId | None = None
    """policy that agents of the role sample; unset, the root's"""
    tools: Annotated[Any, Only(None), OMIT] = None


class AgentsConfig(ConfigModel):
    """Which policy the root agent samples, and which each role does."""

    policy: PolicyId = MAIN
    """policy of the root agent; a trained one"""
    roles: dict[PolicyId, RoleConfig] = Field(default_factory=dict)
    """agents that are opened with a role, by the role's name"""

    def policy_of(self, role: str) -> str:
        bound = self.roles.get(role)
        return bound.policy if bound is not None and bound.policy is not None else self.policy

    @property
    def sampled(self) -> frozenset[str]:
        """Every policy some agent samples."""
        return frozenset({self.policy, *(self.policy_of(role) for role in self.roles)})
