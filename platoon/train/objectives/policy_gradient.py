"""What a policy-gradient update says of sampler and learner, from the logprobs that came back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from platoon.rows.assembly import AssembledRows
from platoon.rows.metrics import TrainingMetrics, training_metrics
from platoon.train.objectives.loss import LossSettings


def compute_training_metrics(
    microbatches: Sequence[tuple[AssembledRows, npt.NDArray[np.float32]]], loss: LossSettings
) -> dict[str, float]:
    """Sampler against learner over the trained tokens of an update; {} where nothing was trained.

    microbatches: rows as sent, and the learner's logprobs of all their targets (float32[S]).
    """
    parts = [training_metrics(rows, logprobs_S, clip_bounds=loss.clip_bounds) for rows, logprobs_S in microbatches]
    return _merged([part for part in parts if part is not None])


def _merged(parts: Sequence[TrainingMetrics]) -> dict[str, float]:
    """Extremes over the microbatches, means by tokens of everything else."""
    total = sum(part.tokens for part in parts)
    if not total:
        return {}
    rows = [asdict(part) for part in parts]
    merged: dict[str, float] = {}
    for name in rows[0]:
        values = [float(row[name]) for row in rows]
        if name.endswith("_min"):
            merged[name] = min(values)
        elif name.endswith("_max"):
            merged[name] = max(values)
        elif name != "tokens":
            merged[name] = sum(value * part.tokens for value, part in zip(values, parts, strict=True)) / total
    return merged
