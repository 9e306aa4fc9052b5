"""Rows of supervised training, beside what they are by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.rows.block import ACTION, DataError, ShapeError
from platoon.rows.supervised import supervised_block, supervised_rows

pytestmark = pytest.mark.unit

Example = list[tuple[int, bool]]
examples = st.lists(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.booleans()), min_size=1, max_size=9), max_size=5)


def tokens_of(rows: list[Example]) -> list[np.ndarray]:
    return [np.array([token for token, _ in row], np.uint32) for row in rows]


def marks_of(rows: list[Example]) -> list[np.ndarray]:
    return [np.array([mark for _, mark in row], np.bool_) for row in rows]


@given(examples, st.integers(1, 1000))
def test_each_trained_target_weighs_one_over_the_tokens_of_the_step(rows: list[Example], trained: int) -> None:
    block = supervised_block(tokens_of(rows), marks_of(rows), policy="main")
    assert block.row_count == len(rows) and block.policies == ("main",)
    assert block.action_count_R.tolist() == [sum(mark for _, mark in row[1:]) for row in rows]
    assert block.row_start.tolist() == [int(any(mark for _, mark in row[1:])) for row in rows]
    assert set(block.flags.tolist()) <= {0, ACTION}
    built = supervised_rows(block, trained)
    assert [row.input_tokens.tolist() for row in built] == [[token for token, _ in row[:-1]] for row in rows]
    assert [row.target_tokens.tolist() for row in built] == [[token for token, _ in row[1:]] for row in rows]
    weight = np.float32(1 / trained)
    assert [row.advantages.tolist() for row in built] == [[float(weight * mark) for _, mark in row[1:]] for row in rows]


def test_the_digest_tells_tokens_and_marks() -> None:
    first: Example = [(1, False), (2, True), (3, True)]
    other: list[list[Example]] = [[first], [[*first[:2], (4, True)]], [[*first[:2], (3, False)]], [first, first]]
    assert len({supervised_block(tokens_of(rows), marks_of(rows), policy="main").digest() for rows in other}) == len(other)


def test_what_does_not_fit_is_refused() -> None:
    one, two = np.ones(1, np.uint32), np.ones(2, np.bool_)
    with pytest.raises(ShapeError, match="as many"):
        supervised_block([one], [two], policy="main")
    with pytest.raises(ShapeError, match="as many"):
        supervised_block([one], [], policy="main")
    with pytest.raises(ShapeError, match="a row holds at least one token"):
        supervised_block([one, one[:0]], [two[:1], two[:0]], policy="main")
    with pytest.raises(DataError, match="tokens: int64"):
        supervised_block([one.astype(np.int64)], [two[:1]], policy="main")
