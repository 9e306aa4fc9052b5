"""Merging calls into rows, against the twin and case by case."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from platoon.rows.block import ACTION, COLUMNS, ERROR, MESSAGE, NO_CALL, DataError, RowBlock, ShapeError, concat
from platoon.rows.merge import Call, TrajectoryCalls, TrajectoryMerger, build_block
from platoon.rows.side import Chunk
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


FIELDS = [
    ("member", [-1, 2**32, 10**5000, 0.5, "x", None]),
    ("trajectory", [-1, 2**32, "x"]),
    ("role", [3, None, "boss", "\udcff"]),
    ("depth", [-1, 70_000, "x"]),
    ("reward", ["x", None, 10**400]),
    ("policy", [3, None, "other", "\udcff"]),
    ("version", [2**63, -(2**63) - 1, 0.5, "x"]),
    ("routing", [2**63, "x", None]),
    ("is_error", ["x", None, 1]),
    ("is_message", ["x", None, 1]),
    ("at", [-1, 2**32, "x"]),
    ("length", [-1, 2**32, "x"]),
    ("name", [3, None, "\udcff"]),
    ("data", [3, None, "x"]),
]


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in FIELDS for value in values], ids=lambda _: "")
def test_a_field_of_another_kind_is_named_with_its_call(field: str, value: Any) -> None:
    """Whatever a field holds, the refusal is a DataError that names it: of a block, of a call alone, of a trajectory alone."""
    good = call([0, 2], [3], chunks=(Chunk(0, 1, "image", b""),))
    chunk = replace(good.chunks[0], **({field: value} if hasattr(good.chunks[0], field) else {}))
    bad = replace(good, chunks=(chunk,), **({field: value} if hasattr(good, field) else {}))
    first = TrajectoryCalls(0, 0, "root", 0, 1.0, [good])
    second = replace(first, calls=[good, bad], **({field: value} if hasattr(first, field) else {}))
    inner = field if hasattr(first, field) else f"calls[1].{field}" if hasattr(good, field) else f"calls[1].chunks[0].{field}"
    with pytest.raises(DataError, match=rf"^trajectories\[1\]\.{re.escape(inner)}\b") as caught:
        build_block([first, second], POLICIES, ROLES)
    assert caught.type is DataError
    if bad.chunks != good.chunks or hasattr(good, field):
        merger = TrajectoryMerger(member=0, trajectory=0, role="root", policies=POLICIES, roles=ROLES)
        with pytest.raises(DataError, match=rf"^(chunks\[0\]\.)?{field}\b"):
            merger.push(bad)
    elif field != "reward":
        agent = {"member": 0, "trajectory": 0, "role": "root", "depth": 0} | {field: value}
        with pytest.raises(DataError, match=rf"^{field}\b"):
            TrajectoryMerger(**agent, policies=POLICIES, roles=ROLES)


def test_every_field_has_a_row() -> None:
    columns = {"prompt", "action", "logprobs", "chunks", "calls"}
    held = {field.name for kind in (TrajectoryCalls, Call, Chunk) for field in fields(kind)}
    assert {field for field, _ in FIELDS} == held - columns


@pytest.mark.parametrize(
    ("broken", "error", "text"),
    [
        (call([1, 2**31], [2]), DataError, r"prompt\[1\] is 2147483648"),
        (call([1], [2], [0.0, 0.0]), ShapeError, "logprobs: 2 entries where 1"),
        (Call(np.array([1]), np.array([2], np.uint32), np.zeros(1, np.float32), "main"), DataError, "prompt: int64"),
        (replace(call([1], [2]), prompt=np.zeros(4, np.uint32)[::2]), ShapeError, "prompt: not contiguous"),
    ],
)
def test_a_broken_column_is_named_with_its_call(broken: Call, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=rf"^trajectories\[0\]\.calls\[1\]\.{text}"):
        block(call([1], [2]), broken)
