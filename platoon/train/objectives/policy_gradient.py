"""What a policy-gradient update says of sampler and learner, from the logprobs that came back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from platoon.rows.assembly import AssembledRows
from platoon.rows.metrics import training_metrics
from platoon.train.objectives.loss import LossSettings


def compute_training_metrics(
    microbatches: Sequence[tuple[AssembledRows, npt.NDArray[np.float32]]], loss: LossSettings
) -> dict[str, float]:
    """Sampler against learner: plain means over the microbatches, each over its own trained tokens; {} where nothing was trained.

    A microbatch counts once, whatever its size, as it does in the gradient; smallest and largest weights are averaged as well.
    microbatches: rows as sent, and the learner's logprobs of all their targets (float32[S]).
    """
    parts = [training_metrics(rows, logprobs_S, clip_bounds=loss.clip_bounds) for rows, logprobs_S in microbatches]
    found = [asdict(part) for part in parts if part is not None]
    names = [name for name in found[0] if name != "tokens"] if found else []
    return {name: sum(part[name] for part in found) / len(found) for name in names}
