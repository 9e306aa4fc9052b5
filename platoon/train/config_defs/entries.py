"""`environments:`, `policies:` and `agents:`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from platoon.config.model import ConfigModel
from platoon.train.config_defs.refused import OMIT, Only
from platoon.train.config_defs.rollout import RolloutLayer, WorkflowLayer
from platoon.train.config_defs.training import AdamParams
from platoon.train.config_defs.values import MAIN, AtLeastOne, Count, Finite, PolicyId, PositiveSeconds


class HarnessExitPolicy(ConfigModel):
    """What a harness that ends by itself means for the episode."""

    timeout: Literal["grade", "exclude"] = "exclude"
    crash: Literal["grade", "grade_if_gateway_clean", "exclude"] = "exclude"


class EvalWorkflowConfig(ConfigModel):
    rollout_config: RolloutLayer = RolloutLayer()


class EvalOverrides(ConfigModel):
    """What an entry changes for every split but train."""

    harness_options: dict[str, Any] = Field(default_factory=dict)
    workflow_config: EvalWorkflowConfig = EvalWorkflowConfig()


class EnvironmentConfig(ConfigModel):
    """One environment entry: tasks, the agent that plays them, and how its groups are made."""

    name: Annotated[str, Field(min_length=1)] | None = None
    service: Annotated[str, Field(min_length=1)] | None = None
    service_kwargs: dict[str, Any] = Field(default_factory=dict)
    harness: Annotated[str, Field(min_length=1)] | None = None
    harness_options: dict[str, Any] = Field(default_factory=dict)
    placement: Literal["auto", "task_sandbox", "local"] = "auto"
    program: str = "single"
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Literal["tasks"] = "tasks"
    seed: int = 0
    exclude_tasks: list[str] = Field(default_factory=list)
    credit: str | None = None
    credit_options: dict[str, Any] = Field(default_factory=dict)
    workflow_config: WorkflowLayer = WorkflowLayer()
    max_staleness: Count | None = None
    success_threshold: Finite = 1.0
    on_context_overflow: Literal["grade", "exclude"] = "grade"
    on_harness_exit: HarnessExitPolicy = HarnessExitPolicy()
    eval_overrides: EvalOverrides = EvalOverrides()
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
    """A policy beside `main`. Null takes the value of `train:`, for what `train:` has."""

    trainable: bool = True
    model_name: Annotated[str, Field(min_length=1)] | None = None
    renderer_name: Annotated[str, Field(min_length=1)] | None = None
    renderer_kwargs: dict[str, Any] | None = None
    context_window_length: AtLeastOne | None = None
    sample_timeout_seconds: PositiveSeconds | None = None
    tinker_base_url: str | None = None
    load_checkpoint_path: str | None = None
    load_optimizer_state: bool = False
    lora_rank: AtLeastOne | None = None
    optimizer: AdamParams | None = None
    loss_fn: str | None = None
    loss_fn_config: dict[str, float] | None = None
    max_staleness: Count | None = None
    batch_size: Annotated[Any, Only(None, "it needs stepping independent"), OMIT] = None
    checkpoint: Annotated[Any, Only(None, "it needs stepping independent"), OMIT] = None


class RoleConfig(ConfigModel):
    """An agent opened with this role. policy: null takes the root's."""

    policy: PolicyId | None = None
    tools: Annotated[Any, Only(None), OMIT] = None


class AgentsConfig(ConfigModel):
    """Which policy the root agent samples, and which each role does."""

    policy: PolicyId = MAIN
    roles: dict[PolicyId, RoleConfig] = Field(default_factory=dict)

    def policy_of(self, role: str) -> str:
        bound = self.roles.get(role)
        return bound.policy if bound is not None and bound.policy is not None else self.policy

    @property
    def sampled(self) -> frozenset[str]:
        """Every policy some agent samples."""
        return frozenset({self.policy, *(self.policy_of(role) for role in self.roles)})
