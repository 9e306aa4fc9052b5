"""What a step is made with, read once from the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from platoon.train.config_defs.rollout import effective
from platoon.train.config_defs.run import RunConfig
from platoon.train.objectives.loss import LossSettings


@dataclass(frozen=True)
class StepSettings:
    """batch_size: groups a step. bounds: staleness bound by entry and policy, None for no bound. by_datum: judge each row alone.

    filter_errors: by entry. filter_zero: leave out rows whose advantages are all zero, where the loss allows.
    """

    batch_size: int
    num_minibatches: int
    num_microbatches: int
    bounds: Mapping[str, Mapping[str, int | None]]
    losses: Mapping[str, LossSettings]
    filter_errors: Mapping[str, bool] = field(default_factory=dict)
    filter_zero: bool = True
    by_datum: bool = False

    @property
    def groups_per_microbatch(self) -> int:
        return self.batch_size // (self.num_minibatches * self.num_microbatches)

    @classmethod
    def from_config(cls, config: RunConfig) -> StepSettings:
        train, entries = config.train, config.environments
        return cls(
            train.batch_size,
            train.num_minibatches,
            train.num_microbatches,
            {entry.label: {policy: config.staleness_of(policy, entry.label) for policy in config.trained} for entry in entries},
            {policy: LossSettings(*config.loss_of(policy)) for policy in config.trained},
            {entry.label: effective(train.workflow_config, entry.workflow_config).filter_errors for entry in entries},
            train.workflow_config.filter_zero_advantage_datums,
            train.stale_filter == "datum",
        )
