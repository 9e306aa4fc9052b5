"""Environment entries as a run plays them: the configuration of one, its tasks of a split, and the service behind them."""

from __future__ import annotations

from dataclasses import dataclass

from platoon.core.protocols import EnvironmentService
from platoon.train.config_defs.entries import EnvironmentConfig


@dataclass(frozen=True)
class EntryTasks:
    """One entry with its tasks of one split, in listing order, and the service that opens sessions for them."""

    config: EnvironmentConfig
    service: EnvironmentService
    tasks: tuple[str, ...]

    @property
    def label(self) -> str:
        return self.config.label
