"""From credit to tokens: advantages on action tokens, weights by depth, and the rows that train nothing.

The order of a step is the order of these functions: `apply_advantages`, weights (`level_weights` or `discount_weights`, then
`scale`), `filter_zero_advantages`; `platoon.rows.assembly` follows. No function changes its input.

`threads` bounds the threads of one call (default: the processors this process may use, one in a forked child). Only millions of
tokens are shared among threads; how many makes no difference to the result, and none outlives the call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from platoon import _native
from platoon._native import DataError
from platoon.rows.block import RowBlock


@dataclass(frozen=True)
class ErrorCounters:
    """What error suppression saw and did, in action tokens; `emptied_rows` lost all of theirs."""

    detected_action_tokens: int = 0
    suppressed_positive_action_tokens: int = 0
    retained_nonpositive_action_tokens: int = 0
    emptied_rows: int = 0


@dataclass(frozen=True, eq=False)
class AppliedAdvantages:
    """Advantages on the tokens of one block.

    advantages_T: f32[T], exactly 0 wherever `is_trained_T` is false.
    is_trained_T: bool[T], the tokens that train.
    trained_tokens_R: i64[R]. is_zero_R: bool[R], no trained token of the row has an advantage other than exactly 0 (NaN is other).
    """

    advantages_T: NDArray[np.float32]
    is_trained_T: NDArray[np.bool_]
    trained_tokens_R: NDArray[np.int64]
    is_zero_R: NDArray[np.bool_]
    errors: ErrorCounters = ErrorCounters()

    @property
    def trained_tokens(self) -> int:
        """Trained tokens of all rows."""
        return int(self.trained_tokens_R.sum())


@dataclass(frozen=True, eq=False)
class KeptRows:
    """What the filter leaves of a microbatch.

    kept_K: i64[K], indices of the rows to send. is_sent: false where nothing would be learnt, so that nothing is sent.
    represented_tokens: trained tokens of all rows, dropped ones included: the denominator that the filter must not change.
    """

    kept_K: NDArray[np.int64]
    is_sent: bool
    represented_tokens: int


def apply_advantages(
    block: RowBlock, advantages: NDArray[np.float64] | NDArray[np.float32], *, filter_errors: bool, threads: int | None = None
) -> AppliedAdvantages:
    """Puts an estimator's values on the block's action tokens.

    advantages: float64[R], one a row, or float32[T], one a token (values off the action tokens are not read). With `filter_errors`
    a token whose call reported an error and whose advantage is positive trains no more; negative and zero ones stay.

    Raises DataError for another dtype and for what is not finite in single precision, ShapeError for another length.
    """
    if advantages.dtype not in (np.float64, np.float32):
        raise DataError(f"advantages: {advantages.dtype} where float64 a row or float32 a token is expected")
    per_token = advantages.dtype == np.float32
    result = _native.apply_advantages(block.flags, block.offsets, advantages, per_token, filter_errors, threads)
    return AppliedAdvantages(
        result["advantages_T"],
        result["is_trained_T"],
        result["trained_tokens_R"],
        result["is_zero_R"],
        ErrorCounters(
            result["detected_action_tokens"],
            result["suppressed_positive_action_tokens"],
            result["retained_nonpositive_action_tokens"],
            result["emptied_rows"],
        ),
    )


def current_starts(block: RowBlock, applied: AppliedAdvantages) -> NDArray[np.uint8]:
    """u8[R]: 1 for the first row of each trajectory that still has trained tokens."""
    everything_R = np.ones(block.row_count, np.bool_)
    return _native.surviving_starts(block.row_start, applied.trained_tokens_R > 0, everything_R)


def level_weights(block: RowBlock, applied: AppliedAdvantages) -> NDArray[np.float64]:
    """float64[R]: each depth counts as one over its trajectories, with a token-weighted mean of one.

    Raises DataError where no depth has both a trajectory and tokens.
    """
    return _native.level_weights(block.row_depth, current_starts(block, applied), applied.trained_tokens_R)


def discount_weights(block: RowBlock, applied: AppliedAdvantages, *, gamma: float) -> NDArray[np.float64]:
    """float64[R]: `gamma` (above 0) to the power of the depth, with a token-weighted mean of one.

    Raises DataError for another gamma and where no row has tokens.
    """
    return _native.discount_weights(block.row_depth, applied.trained_tokens_R, gamma)


def scale(
    block: RowBlock, applied: AppliedAdvantages, weight_R: NDArray[np.float64], *, threads: int | None = None
) -> AppliedAdvantages:
    """The same advantages, each row's multiplied by its weight (float64[R]).

    Raises DataError for a weight that is not finite, and for one that makes advantages which are not.
    """
    scaled_T = _native.scale_rows(applied.advantages_T, block.offsets, weight_R, threads)
    _, is_zero_R = _native.row_totals(scaled_T, applied.is_trained_T, block.offsets)
    return replace(applied, advantages_T=scaled_T, is_zero_R=is_zero_R)


def filter_zero_advantages(applied: AppliedAdvantages, *, is_enabled: bool, is_zero_preserving: bool) -> KeptRows:
    """Which rows of a microbatch are sent.

    is_zero_preserving: the loss gives a token of advantage 0 no gradient. Under it, and if `is_enabled`, rows whose advantages are
    all exactly 0 are dropped; if no row is left, or every advantage is 0, nothing is sent. Rows without trained tokens go in any
    case: they have nothing to learn and are not in the denominator.
    """
    return KeptRows(*_native.filter_zero(applied.trained_tokens_R, applied.is_zero_R, is_enabled, is_zero_preserving))
