"""Values that pass between a run and its trainer: what a start is given, what a step did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platoon.train.checkpoints.saving import Cadence
from platoon.train.policy.learner import Timeouts
from platoon.train.policy.service import ServiceAddress
from platoon.train.policy.spec import PolicySpec
from platoon.train.run_directory.lease import Lease


@dataclass(frozen=True)
class RunSettings:
    """What a start is given.

    identity_digest: what the chain of row digests begins with. addresses: service of each policy. sampled: policies that agents
    sample. watchdog: timeout in seconds and exit code, None for none. budget_started_at: on `clock`, when the budget began to
    count. lease: what the start holds its run directory by; None where nobody else can come.
    """

    run_dir: Path
    identity_digest: str
    specs: Mapping[str, PolicySpec]
    addresses: Mapping[str, ServiceAddress]
    sampled: frozenset[str] = frozenset()
    cadence: Cadence = field(default_factory=Cadence)
    keep_recovery: int | None = None
    largest_staleness: int | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)
    time_budget_s: float | None = None
    budget_started_at: float | None = None
    watchdog: tuple[float, int] | None = None
    lease: Lease | None = None


@dataclass(frozen=True)
class StepResult:
    """What a trainer's step did. moved: policies whose weights changed. rows_digest: of the rows trained, in their fixed order."""

    moved: frozenset[str]
    rows_digest: str
    metrics: Mapping[str, Any] = field(default_factory=dict)
    epoch: int | None = None
