"""Prompts of an agent, each token kept once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.rows.prompts import PromptHistory
from tests.properties import examples

pytestmark = pytest.mark.unit


def tokens(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.array(values, np.uint32)


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 6), st.lists(st.integers(0, 2), max_size=4)), max_size=8))
def test_prompts_stay_what_they_were(steps: list[tuple[int, list[int]]]) -> None:
    """Each step keeps some of the prompt before and adds tokens; what was given out before does not change."""
    history, kept, wanted, last = PromptHistory(), [], [], list[int]()
    for known, more in steps:
        last = last[:known] + more
        kept.append(history.keep(tokens(*last)))
        wanted.append(list(last))
    assert [view.tolist() for view in kept] == wanted
    assert all(view.dtype == np.uint32 and not view.flags.writeable for view in kept)


def test_memory_grows_with_the_row_and_not_with_the_calls() -> None:
    history = PromptHistory()
    turns, step = 100, 50
    prompt_T = np.arange(turns * step, dtype=np.uint32)
    kept = [history.keep(prompt_T[: step * turn].copy()) for turn in range(1, turns + 1)]
    bases = {id(view.base): view.base.nbytes for view in kept if view.base is not None}
    assert sum(bases.values()) <= 4 * prompt_T.nbytes
    assert all(np.array_equal(view, prompt_T[: len(view)]) for view in kept)


def test_a_prompt_that_branches_leaves_the_others_alone() -> None:
    history = PromptHistory()
    first = history.keep(tokens(1, 2, 3))
    second = history.keep(tokens(1, 2, 3, 4, 5))
    branch = history.keep(tokens(1, 2, 9))
    assert (first.tolist(), second.tolist(), branch.tolist()) == ([1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 9])
