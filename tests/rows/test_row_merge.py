"""Merging calls into rows, against the twin and case by case."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from platoon.rows.block import ACTION, COLUMNS, ERROR, MESSAGE, NO_CALL, DataError, RowBlock, ShapeError, concat
from platoon.rows.merge import Call, TrajectoryCalls, TrajectoryMerger, build_block
from tests.properties import examples
from tests.rows.generated import POLICIES, ROLES, block_of, trajectories, typed_call
from tests.twins import row_block as twin

pytestmark = pytest.mark.unit


def call(prompt: list[int], action: list[int], logprobs: list[float] | None = None, **more: Any) -> Call:
    logprobs = [-0.5] * len(action) if logprobs is None else logprobs
    more.setdefault("policy", "main")
    return Call(np.array(prompt, np.uint32), np.array(action, np.uint32), np.array(logprobs, np.float32), **more)


def block(*calls: Call) -> RowBlock:
    return build_block([TrajectoryCalls(0, 0, "root", 0, 1.0, calls)], POLICIES, ROLES)


@examples(60)
@given(trajectories())
def test_merge_and_digest_agree_with_twin(plain: list[dict[str, Any]]) -> None:
    ours, expected = block_of(plain), twin.merge(plain)
    for name, dtype in COLUMNS.items():
        np.testing.assert_array_equal(getattr(ours, name), np.array(expected[name], dtype), err_msg=name)
    assert ours.digest() == f"sha256:{twin.digest(expected, POLICIES, ROLES, ours.side_names)}"


@examples(60)
@given(trajectories())
def test_trajectories_merged_alone_concatenate_to_the_same_block(plain: list[dict[str, Any]]) -> None:
    parts = []
    for item in plain:
        merger = TrajectoryMerger(
            member=item["member"],
            trajectory=item["trajectory"],
            role=ROLES[item["role"]],
            depth=item["depth"],
            policies=POLICIES,
            roles=ROLES,
        )
        for one in item["calls"]:
            merger.push(typed_call(one))
        parts.append(merger.finish(reward=item["reward"]))
    together = concat(parts) if parts else RowBlock.empty(POLICIES, ROLES)
    assert together.digest() == block_of(plain).digest()


def test_a_row_grows_while_prompts_extend_it() -> None:
    merged = block(call([1, 2], [3], version=5), call([1, 2, 3, 4], [5], version=4, is_error=True), call([1, 2, 9], [6], version=7))
    assert merged.tokens.tolist() == [1, 2, 3, 4, 5, 1, 2, 9, 6]
    assert merged.flags.tolist() == [0, 0, ACTION, 0, ACTION | ERROR, 0, 0, 0, ACTION]
    assert merged.call.tolist() == [NO_CALL, NO_CALL, 0, NO_CALL, 1, NO_CALL, NO_CALL, NO_CALL, 2]
    assert merged.offsets.tolist() == [0, 5, 9]
    assert merged.row_version.tolist() == [4, 7]
    assert merged.row_start.tolist() == [1, 0]
    assert merged.action_count_R.tolist() == [2, 1]


def test_calls_of_different_policies_never_share_a_row() -> None:
    merged = block(call([1], [2]), call([1, 2], [3], policy="helper"), call([1, 2, 3], [4], policy="helper"))
    assert merged.row_policy.tolist() == [0, 1]
    assert merged.offsets.tolist() == [0, 2, 6]


def test_the_routing_of_a_row_is_its_last_calls() -> None:
    merged = block(call([1], [2], routing=8), call([1, 2], [3], routing=9), call([7], [7]))
    assert merged.routing_R.tolist() == [9, -1]


def test_messages_are_kept_and_not_trained() -> None:
    merged = block(call([1], [2], is_message=True), call([9], [3]))
    assert merged.flags.tolist() == [0, MESSAGE, 0, ACTION]
    assert merged.row_start.tolist() == [0, 1]


def test_a_call_that_sampled_nothing_adds_nothing() -> None:
    assert block(call([1], [2]), call([8], []), call([1, 2], [3])).digest() == block(call([1], [2]), call([1, 2], [3])).digest()


@pytest.mark.parametrize(
    ("broken", "error", "text"),
    [
        (call([], [1]), ShapeError, "prompt: 0 entries"),
        (call([1], [2], [0.0, 0.0]), ShapeError, "logprobs: 2 entries where 1"),
        (call([1], [2], [float("nan")]), DataError, r"logprobs\[0\] is NaN"),
        (call([1, 2**31], [2]), DataError, r"prompt\[1\] is 2147483648"),
        (call([1], [2], version=-2), DataError, "version"),
        (call([1], [2], policy="other"), DataError, "policy 'other' is not among main, helper"),
        (Call(np.array([1]), np.array([2], np.uint32), np.zeros(1, np.float32), "main"), DataError, "prompt: int64"),
    ],
)
def test_a_broken_call_is_refused_and_changes_nothing(broken: Call, error: type[Exception], text: str) -> None:
    merger = TrajectoryMerger(member=0, trajectory=0, role="root", policies=POLICIES, roles=ROLES)
    merger.push(call([1], [2]))
    with pytest.raises(error, match=text):
        merger.push(broken)
    merger.push(call([1, 2], [3]))
    assert merger.finish(reward=1.0).digest() == block(call([1], [2]), call([1, 2], [3])).digest()


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(DataError, match="role 'boss'"):
        TrajectoryMerger(member=0, trajectory=0, role="boss", policies=POLICIES, roles=ROLES)
