"""On-policy distillation: how far the sampler is from a teacher, as an advantage a token.

teacher_T = teacher_column(block, scored)                     # what the teacher's scoring gave, row by row
found = reverse_kl(block, teacher_T, block.row_reward - baseline_R)
applied = apply_advantages(block, found.advantages_T, filter_errors=True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from platoon import _native
from platoon._native import ShapeError
from platoon.rows.block import RowBlock


@dataclass(frozen=True, eq=False)
class ReverseKl:
    """advantages_T: f32[T], 0 off the action tokens. mean: of student minus teacher over the action tokens, None without any."""

    advantages_T: NDArray[np.float32]
    mean: float | None


def teacher_column(block: RowBlock, logprobs: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """float32[T]: the teacher's logprobs of each row's targets (one a token but the first) where the block has those tokens.

    A row's first token has no logprob: NaN. Raises ShapeError, naming the row, for another number of rows or of targets.
    """
    if len(logprobs) != block.row_count:
        raise ShapeError(f"teacher: {len(logprobs)} rows where {block.row_count} were scored")
    column_T = np.full(block.token_count, np.nan, np.float32)
    for row, values in enumerate(logprobs):
        start, end = int(block.offsets[row]) + 1, int(block.offsets[row + 1])
        if len(values) != end - start:
            raise ShapeError(f"teacher: {len(values)} logprobs for row {row}, which has {end - start} targets")
        column_T[start:end] = values
    return column_T


def reverse_kl(
    block: RowBlock,
    teacher_T: NDArray[np.float32],
    value_R: NDArray[np.float64],
    *,
    kl_coefficient: float = 1.0,
    reward_coefficient: float = 0.0,
) -> ReverseKl:
    """`-kl_coefficient * (student - teacher) + reward_coefficient * value` on action tokens; the student is the block's logprobs.

    teacher_T: float32[T], as `teacher_column` makes it. value_R: float64[R], a row's reward less its baseline; not read where it
    counts for nothing.

    Raises DataError for the first target whose teacher logprob is not finite, for a sampled token whose own is not, and for
    coefficients and advantages that are not; ShapeError for lengths that differ.
    """
    advantages_T, action_tokens, mean = _native.reverse_kl(
        block.flags, block.offsets, block.logprobs, teacher_T, value_R, kl_coefficient, reward_coefficient
    )
    return ReverseKl(advantages_T, mean if action_tokens else None)
