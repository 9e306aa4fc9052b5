"""Policy-gradient losses on assembled rows: what is sent, and the metrics of what came back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from platoon.rows.assembly import AssembledRows
from platoon.rows.metrics import TrainingMetrics, training_metrics
from platoon.train.config_defs.training import CLIP_KEYS, ZERO_PRESERVING_LOSSES
from platoon.train.policy.spec import LossSettings
from platoon.train.policy.wire import WireRows


def is_zero_preserving(loss: LossSettings) -> bool:
    """Whether a token of advantage 0 gets no gradient under this loss and these settings."""
    return loss.loss_fn in ZERO_PRESERVING_LOSSES and set(loss.config) <= CLIP_KEYS


def clip_bounds(loss: LossSettings) -> tuple[float, float] | None:
    """Both thresholds of the ratio, None for a loss without them."""
    if not set(loss.config) >= CLIP_KEYS:
        return None
    return float(loss.config["clip_low_threshold"]), float(loss.config["clip_high_threshold"])


def wire_rows(rows: AssembledRows, loss: LossSettings) -> WireRows:
    """The inputs the loss reads, and no others: strict services refuse them."""
    inputs_S = {"logprobs": rows.logprobs_S, "advantages": rows.advantages_S}
    if loss.loss_fn == "gspo":
        inputs_S["sequence_ratio_mask"] = rows.is_trained_S.astype(np.float32)
    return WireRows(rows.input_tokens_S, rows.target_tokens_S, inputs_S, rows.offsets)


def compute_training_metrics(
    microbatches: Sequence[tuple[AssembledRows, npt.NDArray[np.float32]]], loss: LossSettings
) -> dict[str, float]:
    """Sampler against learner over the trained tokens of an update; {} where nothing was trained.

    microbatches: rows as sent, and the learner's logprobs of all their targets (float32[S]).
    """
    bounds = clip_bounds(loss)
    parts = [training_metrics(rows, logprobs_S, clip_bounds=bounds) for rows, logprobs_S in microbatches]
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
