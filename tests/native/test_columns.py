"""Columns that Python lends: bools of any byte are refused, and calls at once on the same columns do not meet."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from platoon import _native
from platoon._native import DataError

pytestmark = pytest.mark.unit

Bools = np.ndarray[Any, np.dtype[np.bool_]]
FLOATS = np.ones(2, np.float32)


def bytes_as_bools(*values: int) -> Bools:
    return np.array(values, np.uint8).view(np.bool_)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("is_trained", lambda bools: _native.row_totals(np.ones(2, np.float32), bools, np.array([0, 2]))),
        ("is_peer", lambda bools: _native.baselines([np.zeros(2, np.int64)], np.ones(2), bools, False)),
        ("has_tokens", lambda bools: _native.surviving_starts(np.ones(2, np.uint8), bools, np.ones(2, np.bool_))),
        ("is_kept", lambda bools: _native.surviving_starts(np.ones(2, np.uint8), np.ones(2, np.bool_), bools)),
        ("is_trained", lambda bools: _native.training_metrics(FLOATS, FLOATS, bools, None)),
        ("is_eligible", lambda bools: _native.thompson_draw(np.ones(2), np.ones(2), bools, 1, 1, bytes(16))),
        (
            "is_trained",
            lambda bools: _native.assemble(
                np.ones(2, np.uint32), FLOATS, FLOATS, bools, np.array([0, 2]), np.zeros(1, np.int64), 1.0
            ),
        ),
    ],
)
def test_bytes_that_are_no_bools_are_refused(name: str, call: Callable[[Bools], object]) -> None:
    call(bytes_as_bools(1, 0))
    with pytest.raises(DataError, match=rf"{name}\[1\] is the byte 2: a bool is 0 or 1"):
        call(bytes_as_bools(1, 2))


def test_threads_of_python_share_no_work() -> None:
    """Kernels that run at once, on the same columns too, give what each gives alone."""
    tokens = 1_000_000
    flags, offsets = np.ones(tokens, np.uint8), np.arange(0, tokens + 1, 100)
    advantages = [np.full(tokens // 100, value, np.float64) for value in (1.0, -2.0)]
    alone = [_native.apply_advantages(flags, offsets, values, False, False, 2) for values in advantages]
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(_native.apply_advantages, flags, offsets, advantages[at % 2], False, False, 2) for at in range(8)]
        for at, call in enumerate(calls):
            for name, values in call.result().items():
                assert np.array_equal(values, alone[at % 2][name]), name
