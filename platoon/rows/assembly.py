"""From rows to the buffers that a training service takes.

Targets are the tokens shifted by one: a row of N tokens has N - 1 (S targets over all kept rows). Each buffer is fresh, contiguous
and writable, so that an SDK may take the views of its rows without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from platoon import _native
from platoon._native import ShapeError
from platoon.rows.advantages import AppliedAdvantages
from platoon.rows.block import RowBlock
from platoon.rows.side import RowSide, row_sides

EPSILON = 1e-8
"""Keeps the scale finite over no token."""


@dataclass(frozen=True, eq=False)
class AssembledRow:
    """Views into the buffers of one row of N - 1 targets. `routing` is the service's handle, -1 for none."""

    input_tokens: NDArray[np.int32]
    target_tokens: NDArray[np.int64]
    logprobs: NDArray[np.float32]
    advantages: NDArray[np.float32]
    is_trained: NDArray[np.bool_]
    routing: int


@dataclass(frozen=True, eq=False)
class AssembledRows:
    """The kept rows of a microbatch, K rows of S targets.

    input_tokens_S: i32[S], each row without its last token. target_tokens_S: i64[S], each row without its first.
    logprobs_S: f32[S], of the targets under their sampler. advantages_S: f32[S], scaled. is_trained_S: bool[S]; not sent.
    offsets: i64[K+1], bounds of the rows' targets. rows_K: i64[K], their indices in the block. routing_K: i64[K], -1 for none.
    sides_K: what rows hold beside their tokens, by place among the kept; chunks lie in the inputs as they lay in the row.
    """

    input_tokens_S: NDArray[np.int32]
    target_tokens_S: NDArray[np.int64]
    logprobs_S: NDArray[np.float32]
    advantages_S: NDArray[np.float32]
    is_trained_S: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    rows_K: NDArray[np.int64]
    routing_K: NDArray[np.int64]
    sides_K: Mapping[int, RowSide] = field(default_factory=dict)

    @property
    def row_count(self) -> int:
        """K."""
        return len(self.rows_K)

    def row(self, index: int) -> AssembledRow:
        """The row at `index` of the kept ones. IndexError out of range."""
        if not 0 <= index < self.row_count:
            raise IndexError(f"row {index} of {self.row_count}")
        span = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        return AssembledRow(
            self.input_tokens_S[span],
            self.target_tokens_S[span],
            self.logprobs_S[span],
            self.advantages_S[span],
            self.is_trained_S[span],
            int(self.routing_K[index]),
        )

    def __iter__(self) -> Iterator[AssembledRow]:
        return (self.row(index) for index in range(self.row_count))


def assemble(
    block: RowBlock,
    applied: AppliedAdvantages,
    kept_K: NDArray[np.int64],
    *,
    denominator: float,
    epsilon: float = EPSILON,
    threads: int | None = None,
) -> AssembledRows:
    """Shifts, scales by 1 / (denominator + epsilon) and gathers the rows `kept_K` (int64, rising).

    denominator: trained tokens that the microbatch stands for (`KeptRows.represented_tokens`), at least 0; the service sums over
    tokens, and this makes the sum a mean. threads: as in `platoon.rows.advantages`.

    Raises DataError for rows that do not rise or do not exist, ShapeError where `applied` is of another block.
    """
    if len(applied.advantages_T) != block.token_count:
        raise ShapeError(f"advantages: {len(applied.advantages_T)} tokens for a block of {block.token_count}")
    buffers = _native.assemble(
        block.tokens,
        block.logprobs,
        applied.advantages_T,
        applied.is_trained_T,
        block.offsets,
        kept_K,
        1.0 / (denominator + epsilon),
        threads,
    )
    sides = row_sides(block)
    sides_K = {place: sides[row] for place, row in enumerate(kept_K.tolist()) if row in sides} if sides else {}
    return AssembledRows(**buffers, rows_K=kept_K, routing_K=block.routing_R[kept_K], sides_K=sides_K)
