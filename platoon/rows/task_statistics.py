"""What is known of tasks, as columns: evidence that fades with policy versions, posteriors of pass rates, and Thompson draws.

Functions of N tasks take and give one entry a task and change nothing. Sums run in the order of the entries: give attempts in the
order of the draws, and the result does not depend on which group settled first. `docs/reference/task-draws.md` specifies the draws.

    evidence = add_attempts(evidence, task_A, version_A, passes_A, failures_A)
    seen = posteriors(evidence, entry_of_task_N, entry_count=2, version=now)
    draw = thompson_draw(seen, is_eligible_N, group_size=8, key=key)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from platoon import _native

BANDS = ("zero", "low", "mid", "high", "solved")
"""Of a mean pass rate: at most 0.05, at most 0.2, below 0.8, below 0.95, and the rest."""

CANDIDATES = 4096
KEY_BYTES = 16


@dataclass(frozen=True, eq=False)
class Evidence:
    """passes_N, failures_N: float64, decayed as of version_N: int64, -1 for a task without attempts."""

    passes_N: NDArray[np.float64]
    failures_N: NDArray[np.float64]
    version_N: NDArray[np.int64]

    @staticmethod
    def none(tasks: int) -> Evidence:
        """That of tasks never tried."""
        return Evidence(np.zeros(tasks), np.zeros(tasks), np.full(tasks, -1, np.int64))


@dataclass(frozen=True, eq=False)
class Posteriors:
    """alpha_N, beta_N: float64, parameters of the Beta distribution of a task's pass rate. entry_rate: float64, one an entry."""

    alpha_N: NDArray[np.float64]
    beta_N: NDArray[np.float64]
    entry_rate: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Outlook:
    """What a group would show. pass_at_N, informative_at_N: float64, that one passes; that one passes and one fails.

    band_N: uint8, index into BANDS of the mean pass rate.
    """

    pass_at_N: NDArray[np.float64]
    informative_at_N: NDArray[np.float64]
    band_N: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class LabelSummary:
    """By label: tasks (uint64), means of pass@1 and pass@group over them, tasks by band (uint64[labels, bands])."""

    tasks: NDArray[np.uint64]
    pass_at_1: NDArray[np.float64]
    pass_at_group: NDArray[np.float64]
    bands: NDArray[np.uint64]


@dataclass(frozen=True)
class ThompsonDraw:
    """task: its index. rate: the pass rate sampled for it. score: how likely its group is to be informative at that rate."""

    task: int
    rate: float
    score: float


def add_attempts(
    evidence: Evidence,
    task_A: NDArray[np.uint32],
    version_A: NDArray[np.int64],
    passes_A: NDArray[np.uint32],
    failures_A: NDArray[np.uint32],
) -> Evidence:
    """The evidence with attempts added: passes and failures of a task under a version, which is 0 or more.

    Evidence weighs half after 32 versions. Newer attempts make older ones fade; older ones that come late come in faded.
    Raises DataError for a task or version that is none, ShapeError for lengths that differ.
    """
    out = _native.add_attempts(evidence.passes_N, evidence.failures_N, evidence.version_N, task_A, version_A, passes_A, failures_A)
    return Evidence(out["passes"], out["failures"], out["version"])


def posteriors(evidence: Evidence, entry_of_task_N: NDArray[np.uint32], *, entry_count: int, version: int) -> Posteriors:
    """The posteriors seen from `version`: what an entry's tasks say together counts as two attempts of each of them."""
    out = _native.posteriors(evidence.passes_N, evidence.failures_N, evidence.version_N, entry_of_task_N, entry_count, version)
    return Posteriors(out["alpha"], out["beta"], out["entry_rate"])


def outlook(seen: Posteriors, *, group_size: int) -> Outlook:
    """What a group of `group_size` (1 to 4096) would show of each task."""
    out = _native.outlook(seen.alpha_N, seen.beta_N, group_size)
    return Outlook(out["pass_at"], out["informative_at"], out["band"])


def label_summary(single: Outlook, group: Outlook, label_of_task_N: NDArray[np.uint32], *, label_count: int) -> LabelSummary:
    """The outlooks of a group of one and of the run's group size, summed up by label. Every label has a task."""
    out = _native.label_summary(label_of_task_N, label_count, single.pass_at_N, group.pass_at_N, group.band_N)
    return LabelSummary(out["tasks"], out["pass_at_1"], out["pass_at_group"], out["bands"].reshape(label_count, len(BANDS)))


def thompson_draw(
    seen: Posteriors, is_eligible_N: NDArray[np.bool_], *, group_size: int, key: bytes, candidates: int = CANDIDATES
) -> ThompsonDraw | None:
    """The task whose next group is most likely to be informative at the pass rate sampled for it; None where none is eligible.

    key: 16 bytes that name the decision. At most `candidates` tasks are looked at, chosen by the same key. The same arguments give
    the same draw on every machine.
    """
    draw = _native.thompson_draw(seen.alpha_N, seen.beta_N, is_eligible_N, group_size, candidates, key)
    return None if draw is None else ThompsonDraw(*draw)
