"""The configuration of `platoon eval`: which weights play which tasks, how often, and where that is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from platoon.config.model import ConfigModel
from platoon.config.text import quoted
from platoon.errors import Problem
from platoon.sampling.model_spec import ModelSpec
from platoon.sampling.sample_timeout import TIMEOUT_KEY, sample_timeout
from platoon.train.config_defs.entries import EnvironmentConfig
from platoon.train.config_defs.refused import OMIT, Only
from platoon.train.config_defs.rollout import RolloutConfig, RolloutLayer, overlay
from platoon.train.config_defs.values import (
    AtLeastOne,
    Concurrency,
    Count,
    Finite,
    PositiveSeconds,
    RendererName,
    ServiceAddressText,
)


class EvalWorkflow(ConfigModel):
    """How the tasks are played."""

    num_rollouts_per_task: Concurrency = 1
    """rollouts of each task"""
    num_concurrent_workers: Concurrency = 32
    """rollouts that run at once"""
    success_threshold: Finite = 1.0
    """lowest reward that counts as passed, in statistics alone"""
    count_timeout_as_failure: bool = False
    """whether a rollout that timed out is a valid one that failed; else it is errored"""
    rollout_config: RolloutLayer = RolloutLayer()
    """settings of a rollout, laid over the entries' own"""
    fail_fast: Annotated[Any, Only(False), OMIT] = False
    use_subprocesses: Annotated[Any, Only(False), OMIT] = False
    subprocess_max_workers: Annotated[Any, Only(None), OMIT] = None


class InferenceConfig(ConfigModel):
    """Which weights play, and how."""

    model_name: Annotated[str, Field(min_length=1)]
    """base model, as the training service names it"""
    renderer_name: RendererName
    """what turns messages into tokens: `chat_template` (the model's own), or a renderer of the tinker cookbook"""
    renderer_kwargs: dict[str, Any] = Field(default_factory=dict)
    """settings of the renderer; an unknown one is an error"""
    model_path: str | None = None
    """`tinker://` path of sampler weights; unset, the base model; `--of` and `--checkpoint` win"""
    sample_timeout_seconds: PositiveSeconds | None = None
    """longest wait for one sample, in seconds; unset, `TINKER_SAMPLE_TIMEOUT_SECONDS`, else 600"""
    context_window_length: AtLeastOne | None = None
    """tokens of prompt and reply together; unset, what the service tells; prompts beyond it are refused"""
    output_dir: str | None = None
    """where rollouts and reports go; unset, a directory of its own below the site's `runs`"""
    workflow: EvalWorkflow = EvalWorkflow()
    """how the tasks are played"""
    resume: bool = True
    """whether rollouts that are done already are kept"""
    retry_errored: bool = True
    """whether those of them that are errored are played again"""
    judges: Annotated[Any, Only(True), OMIT] = True
    hosted: Annotated[Any, Only(None, "name a model of the training service"), OMIT] = None


class EvaluationConfig(ConfigModel):
    """An evaluation."""

    inference: InferenceConfig
    """which weights play, and how"""
    environments: list[EnvironmentConfig]
    """what is played"""
    split: Annotated[str, Field(min_length=1)] = "eval"
    """split of each entry's tasks"""
    tinker_base_url: ServiceAddressText | None = None
    """training service, `local` for an embedded one; unset, `TINKER_BASE_URL`, else the hosted service"""
    log_path: str | None = None
    """read by training alone; allowed here so that a base file can hold it"""
    seed: Count = 0
    """with a task and the number of a rollout it decides every sample, so that two evaluations draw alike"""
    deterministic: bool = False
    """whether the embedded service computes each sample by itself, the same bits in any company"""
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
                yield Problem(f"must be unique, {quoted(entry.label)} is taken", key=f"environments.{index}.name")

    def model_spec(self) -> ModelSpec:
        """What plays. Raises ConfigError for a variable that says no timeout."""
        own = self.inference
        return ModelSpec(
            own.model_name,
            own.renderer_name,
            dict(own.renderer_kwargs),
            own.context_window_length,
            sample_timeout((f"inference.{TIMEOUT_KEY}", own.sample_timeout_seconds)),
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
