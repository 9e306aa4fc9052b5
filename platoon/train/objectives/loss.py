"""Losses as a policy's settings name them, and the columns each reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from platoon.rows.assembly import AssembledRows
from platoon.train.config_defs.training import CLIP_KEYS, ZERO_PRESERVING_LOSSES, default_loss_config


@dataclass(frozen=True)
class LossSettings:
    """loss_fn: a loss the service knows. config: sent as it stands, the thresholds always explicit."""

    loss_fn: str = "cispo"
    config: Mapping[str, float] = field(default_factory=default_loss_config)

    @property
    def is_zero_preserving(self) -> bool:
        """Whether a token of advantage 0 gets no gradient under this loss and these settings."""
        return self.loss_fn in ZERO_PRESERVING_LOSSES and set(self.config) <= CLIP_KEYS

    @property
    def clip_bounds(self) -> tuple[float, float] | None:
        """Both thresholds of the ratio, None for a loss without them."""
        if not set(self.config) >= CLIP_KEYS:
            return None
        return float(self.config["clip_low_threshold"]), float(self.config["clip_high_threshold"])

    def inputs(self, rows: AssembledRows) -> dict[str, npt.NDArray[np.float32]]:
        """float32[S] columns the loss reads beside the targets, and no others: strict services refuse them."""
        if self.loss_fn == "cross_entropy":
            return {"weights": rows.advantages_S}
        inputs_S = {"logprobs": rows.logprobs_S, "advantages": rows.advantages_S}
        if self.loss_fn == "gspo":
            inputs_S["sequence_ratio_mask"] = rows.is_trained_S.astype(np.float32)
        return inputs_S
