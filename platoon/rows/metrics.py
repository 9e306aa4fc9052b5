"""What a step learns from the logprobs that the trainer returned for the rows it was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from platoon import _native
from platoon._native import ShapeError
from platoon.rows.assembly import AssembledRows


@dataclass(frozen=True)
class TrainingMetrics:
    """Means over the trained targets of one microbatch; q is a sampled logprob, p the trainer's, the weight exp(p - q).

    kl_sample_train_v1: mean of q - p. kl_sample_train_v2: half the mean square of it. entropy: minus the mean of q.
    importance_weight_*: of the weights; the deviation is the sample's, NaN for one token.
    clip_frac_*: shares of the weights below, above and outside the clip bounds; 0 without bounds.
    """

    tokens: int
    kl_sample_train_v1: float
    kl_sample_train_v2: float
    entropy: float
    importance_weight_mean: float
    importance_weight_std: float
    importance_weight_min: float
    importance_weight_max: float
    clip_frac_low: float
    clip_frac_high: float
    clip_frac_total: float


def training_metrics(
    rows: AssembledRows,
    training_logprobs: NDArray[np.float32] | Sequence[NDArray[np.float32]],
    *,
    clip_bounds: tuple[float, float] | None = None,
) -> TrainingMetrics | None:
    """Compares the sampler's logprobs with the trainer's; None where no target is trained.

    training_logprobs: float32[S], or one float32 array a row. clip_bounds: (low, high) of the ratio itself.

    Raises ShapeError, naming the row, where lengths differ.
    """
    training_S = training_logprobs if isinstance(training_logprobs, np.ndarray) else _join(rows, training_logprobs)
    result = _native.training_metrics(rows.logprobs_S, training_S, rows.is_trained_S, clip_bounds)
    return TrainingMetrics(**result) if result["tokens"] else None


def _join(rows: AssembledRows, parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    if len(parts) != rows.row_count:
        raise ShapeError(f"training logprobs: {len(parts)} rows where {rows.row_count} were sent")
    for index, (part, expected) in enumerate(zip(parts, np.diff(rows.offsets), strict=True)):
        if len(part) != expected:
            raise ShapeError(f"training logprobs: {len(part)} values for row {index}, which has {expected} targets")
    return np.concatenate(parts).astype(np.float32, copy=False) if parts else np.zeros(0, np.float32)
