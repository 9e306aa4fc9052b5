"""The configuration of `platoon eval`: which weights play which tasks, how often, and where that is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from platoon.config.model import ConfigModel
from platoon.errors import Problem
from platoon.sampling.model_spec import ModelSpec
from platoon.train.config_defs.entries import EnvironmentConfig
from platoon.train.config_defs.refused import OMIT, Only
from platoon.train.config_defs.rollout import RolloutConfig, RolloutLayer, overlay
from platoon.train.config_defs.values import AtLeastOne, Concurrency, Count, Finite, PositiveSeconds

SAMPLE_TIMEOUT_S = 600.0


class EvalWorkflow(ConfigModel):
    """How the tasks are played. count_timeout_as_failure: a timed-out rollout is a valid one that failed; else it is errored."""

    num_rollouts_per_task: AtLeastOne = 1
    num_concurrent_workers: Concurrency = 32
    success_threshold: Finite = 1.0
    count_timeout_as_failure: bool = False
    rollout_config: RolloutLayer = RolloutLayer()
    fail_fast: Annotated[Any, Only(False), OMIT] = False
    use_subprocesses: Annotated[Any, Only(False), OMIT] = False
    subprocess_max_workers: Annotated[Any, Only(None), OMIT] = None


class InferenceConfig(ConfigModel):
    """model_path: sampler weights on the service, null for the base model; a checkpoint named on the command line wins.

    resume: rollouts that are done already are kept. retry_errored: of those, errored ones are played again.
    """

    model_name: Annotated[str, Field(min_length=1)]
    renderer_name: Annotated[str, Field(min_length=1)]
    renderer_kwargs: dict[str, Any] = Field(default_factory=dict)
    model_path: str | None = None
    sample_timeout_seconds: PositiveSeconds | None = None
    context_window_length: AtLeastOne | None = None
    output_dir: str | None = None
    workflow: EvalWorkflow = EvalWorkflow()
    resume: bool = True
    retry_errored: bool = True
    judges: Annotated[Any, Only(True), OMIT] = True
    hosted: Annotated[Any, Only(None, "name a model of the training service"), OMIT] = None


class EvaluationConfig(ConfigModel):
    """An evaluation. seed: with a task and the number of a rollout it decides every sample. split: of each entry's tasks."""

    inference: InferenceConfig
    environments: list[EnvironmentConfig]
    split: Annotated[str, Field(min_length=1)] = "eval"
    tinker_base_url: str | None = None
    log_path: str | None = None
    seed: Count = 0
    deterministic: bool = False
    stage: Annotated[Any, Only("full"), OMIT] = "full"

    def checks(self) -> Iterator[Problem]:
        """Every broken rule between keys."""
        if not self.environments:
            yield Problem("needs at least one entry", key="environments")
        labels = [entry.label for entry in self.environments]
        for index, entry in enumerate(self.environments):
            for key in ("service", "harness"):
                if getattr(entry, key) is None:
                    yield Problem("is required", key=f"environments.{index}.{key}")
            if labels.index(entry.label) != index:
                yield Problem(f"must be unique, {entry.label!r} is taken", key=f"environments.{index}.name")

    def model_spec(self) -> ModelSpec:
        own = self.inference
        return ModelSpec(
            own.model_name,
            own.renderer_name,
            dict(own.renderer_kwargs),
            own.context_window_length,
            own.sample_timeout_seconds or SAMPLE_TIMEOUT_S,
            self.tinker_base_url,
        )

    def rollout_config(self, entry: EnvironmentConfig) -> RolloutConfig:
        """An entry's settings: its own, what `inference.workflow` sets on top, then its `eval_overrides`; lowest the defaults."""
        layers = (
            entry.workflow_config.rollout_config,
            self.inference.workflow.rollout_config,
            entry.eval_overrides.workflow_config.rollout_config,
        )
        result = RolloutConfig()
        for layer in layers:
            result = RolloutConfig(**overlay(result, layer))
        return result
