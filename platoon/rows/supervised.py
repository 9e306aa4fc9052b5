"""Rows of supervised training: sequences that were not sampled here, with marks on the tokens that they teach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from platoon import _native
from platoon.rows.advantages import apply_advantages
from platoon.rows.assembly import AssembledRows, assemble
from platoon.rows.block import ACTION, COLUMNS, NO_CALL, RowBlock, ShapeError
from platoon.rows.merge import NONE


def supervised_block(
    tokens: Sequence[NDArray[np.uint32]], is_trained: Sequence[NDArray[np.bool_]], *, policy: str, role: str = "example"
) -> RowBlock:
    """One row a sequence, as a member of its own with one call, no logprobs and no version.

    tokens: uint32 of at least one token each. is_trained: bool of the same lengths; a row's first token has no target, and is none.

    Raises ShapeError where a sequence and its marks differ in length, or one is empty.
    """
    lengths_R = np.array([len(row) for row in tokens], np.int64)
    if [len(row) for row in is_trained] != lengths_R.tolist():
        raise ShapeError("is_trained: as many sequences and marks as tokens are expected")
    if not lengths_R.all():
        raise ShapeError("tokens: a row holds at least one token")
    count = len(lengths_R)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths_R)])
    marks_T = np.concatenate([*is_trained, np.zeros(0, np.bool_)])
    marks_T[offsets[:-1]] = False
    rows_R = np.arange(count, dtype=np.uint32)
    flags_T, call_T = marks_T * np.uint8(ACTION), np.where(marks_T, np.repeat(rows_R, lengths_R), np.uint32(NO_CALL))
    nothing_R = np.full(count, NONE, np.int64)
    action_count_R, _ = _native.row_samples(flags_T, call_T, offsets, nothing_R)
    values: dict[str, Any] = {name: np.zeros(count, dtype) for name, dtype in COLUMNS.items() if name.startswith(("call_", "row_"))}
    values |= dict.fromkeys(("call_version", "call_routing", "row_version"), nothing_R)
    values |= {"row_member": rows_R, "row_start": (action_count_R > 0).astype(np.uint8)}
    return RowBlock(
        tokens=np.concatenate([*tokens, np.zeros(0, np.uint32)]),
        logprobs=np.zeros(len(marks_T), np.float32),
        flags=flags_T,
        call=call_T,
        offsets=offsets,
        policies=(policy,),
        roles=(role,),
        **values,
    )


def supervised_rows(block: RowBlock, trained_tokens: int) -> AssembledRows:
    """The rows of such a block for the service: the advantage of each trained target is 1 / `trained_tokens`, its weight.

    trained_tokens: of the whole step, above 0, so that the sum over all its microbatches is a mean.
    """
    applied = apply_advantages(block, np.ones(block.row_count), filter_errors=False)
    return assemble(block, applied, np.arange(block.row_count), denominator=trained_tokens, epsilon=0.0)
