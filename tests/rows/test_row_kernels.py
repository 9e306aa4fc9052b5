"""Staleness, credit, advantages, assembly and metrics: each against its twin, then case by case."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.rows import advantages as credit_on_tokens
from platoon.rows.assembly import assemble
from platoon.rows.block import ACTION, DataError, RowBlock, ShapeError
from platoon.rows.credit import agent_keys, group_baselines, keyed_baselines
from platoon.rows.distillation import reverse_kl, teacher_column
from platoon.rows.merge import Call, TrajectoryCalls, build_block
from platoon.rows.metrics import training_metrics
from platoon.rows.stale import oldest_versions, stale_rows
from tests.properties import examples
from tests.rows.generated import blocks
from tests.twins import row_kernels as twin

pytestmark = pytest.mark.unit

REWARDS = st.floats(-4, 4)
ADVANTAGES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-30, math.nan]) | st.floats(-4, 4)


def same(ours: Any, expected: Any) -> None:
    """Bit for bit, but that one NaN is as good as another."""
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(expected, np.asarray(ours).dtype), strict=True)


def close(ours: Any, expected: Any) -> None:
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-12)


@examples(60)
@given(blocks, st.data())
def test_stale_rows_agree_with_twin(block: RowBlock, data: st.DataObject) -> None:
    current = data.draw(st.lists(st.integers(0, 9), min_size=2, max_size=2))
    bounds = data.draw(st.lists(st.none() | st.integers(0, 4), min_size=2, max_size=2))
    groups = data.draw(st.lists(st.integers(0, 3), min_size=block.row_count, max_size=block.row_count))
    ours = stale_rows(block, current, bounds, group_of_row_R=np.array(groups, np.uint32), group_count=4)
    expected = twin.stale(block.row_version.tolist(), block.row_policy.tolist(), groups, 4, current, bounds)
    for mine, theirs in zip((ours.is_stale_R, ours.has_stale_G, ours.is_stale_G, ours.count_P), expected, strict=True):
        same(mine, theirs)


@examples(60)
@given(st.lists(st.lists(st.integers(-1, 5) | st.integers(0, 2**63 - 1), max_size=4), max_size=6))
def test_a_row_is_as_old_as_its_oldest_call(calls_of_rows: list[list[int]]) -> None:
    versions = [version for row in calls_of_rows for version in row]
    offsets = np.cumsum([0, *(len(row) for row in calls_of_rows)])
    assert oldest_versions(np.array(versions, np.int64), offsets).tolist() == twin.oldest(versions, offsets.tolist())


def test_staleness_by_policy_name() -> None:
    call = Call(np.array([1], np.uint32), np.array([2], np.uint32), np.zeros(1, np.float32), "main", version=3)
    block = build_block([TrajectoryCalls(0, 0, "root", 0, 0.0, [call])], ("main",), ("root",))
    assert not stale_rows(block, {"main": 5}, {"main": 2}).has_stale_G[0]
    assert stale_rows(block, {"main": 6}, {"main": 2}).is_stale_G[0]
    assert not stale_rows(block, {"main": 6}, {"main": None}).is_stale_R[0]
    with pytest.raises(DataError, match="bound: none for policy main"):
        stale_rows(block, {"main": 6}, {"other": 2})
    with pytest.raises(DataError, match="current version: 2 values for 1 policies"):
        stale_rows(block, [1, 2], [None])


@examples(60)
@given(st.lists(st.tuples(st.integers(-2, 3), REWARDS, st.booleans()), max_size=12), st.booleans())
def test_baselines_agree_with_twin(agents: list[tuple[int, float, bool]], leave_one_out: bool) -> None:
    keys, rewards, is_peer = [list(column) for column in zip(*agents, strict=True)] or [[], [], []]
    ours = keyed_baselines(
        np.array(keys, np.int64), np.array(rewards, np.float64), np.array(is_peer, np.bool_), leave_one_out=leave_one_out
    )
    np.testing.assert_allclose(ours, twin.baselines(keys, rewards, is_peer, leave_one_out), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(("leave_one_out", "workers"), [(False, [0.4, 0.0, -0.4]), (True, [0.6, 0.0, -0.6])])
def test_keyed_credit_worked_example(leave_one_out: bool, workers: list[float]) -> None:
    """Roots 1.0 and 0.0; workers 0.8 and 0.4 below the first, 0.0 below the second; key [task, role]."""
    member, role = [0, 0, 0, 1, 1], ["root", "worker", "worker", "root", "worker"]
    reward = np.array([1.0, 0.8, 0.4, 0.0, 0.0])
    key = agent_keys(["task"] * 5, role)
    advantage = reward - keyed_baselines(key, reward, np.ones(5, np.bool_), leave_one_out=leave_one_out)
    np.testing.assert_allclose(advantage[[1, 2, 4]], workers, atol=1e-12)
    # The estimator `group` centres all three on the mean of the roots.
    root_baseline = group_baselines(reward[[0, 3]], np.ones(2, np.bool_))
    assert root_baseline[[member[at] for at in (1, 2, 4)]].tolist() == [0.5, 0.5, 0.5]


def test_group_baselines_outside_the_trainable_members() -> None:
    """A member that is not trainable has the plain mean; a lone trainable one has advantage 0 without itself."""
    reward = np.array([1.0, 0.0, 0.25])
    assert group_baselines(reward, np.array([True, True, False])).tolist() == [0.5, 0.5, 0.5]
    assert group_baselines(reward, np.array([True, True, False]), leave_one_out=True).tolist() == [0.0, 1.0, 0.5]
    assert group_baselines(reward, np.array([True, False, False]), leave_one_out=True).tolist() == [1.0, 1.0, 1.0]


KEYS = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 3)


@examples(60)
@given(st.lists(st.tuples(KEYS, st.integers(0, 2**32 - 1), st.integers(0, 2), st.sampled_from("abc")), max_size=12), st.data())
def test_keys_of_any_columns_agree_with_twin(rows: list[tuple[int, int, int, str]], data: st.DataObject) -> None:
    wide, middle, narrow, names = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    columns: list[Any] = [np.array(wide, np.int64), np.array(middle, np.uint32), np.array(narrow, np.uint16), names]
    chosen = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True))
    keys = agent_keys(*(columns[index] for index in chosen))
    assert keys.tolist() == twin.keys([[row[index] for row in rows] for index in chosen])
    rewards, is_peer = np.arange(float(len(rows))), np.arange(len(rows)) % 4 != 1
    together = keyed_baselines([columns[index] for index in chosen], rewards, is_peer, leave_one_out=True)
    np.testing.assert_array_equal(together, keyed_baselines(keys, rewards, is_peer, leave_one_out=True))


def test_rewards_that_do_not_add_up_are_refused() -> None:
    keys, everyone = np.zeros(2, np.int64), np.ones(2, np.bool_)
    with pytest.raises(DataError, match=r"rewards\[1\] is NaN"):
        keyed_baselines(keys, np.array([1.0, np.nan]), everyone)
    with pytest.raises(DataError, match="too large to add"):
        keyed_baselines(keys, np.array([1e308, 1e308]), everyone)


def test_keys_need_columns_of_one_length() -> None:
    assert agent_keys([3, 3, 1], ["a", "b", "a"], [0, 0, 0]).tolist() == [0, 1, 2]
    with pytest.raises(DataError, match="at least one"):
        agent_keys()
    with pytest.raises(ShapeError):
        agent_keys([1], [1, 2])


def applied_to(block: RowBlock, data: st.DataObject) -> tuple[Any, dict[str, Any]]:
    per_token = data.draw(st.booleans())
    suppress = data.draw(st.booleans())
    count = block.token_count if per_token else block.row_count
    values = data.draw(st.lists(ADVANTAGES, min_size=count, max_size=count))
    given_values = np.array(values, np.float32 if per_token else np.float64)
    ours = credit_on_tokens.apply_advantages(block, given_values, filter_errors=suppress)
    expected = twin.apply(block.flags.tolist(), block.offsets.tolist(), given_values.tolist(), per_token, suppress)
    return ours, expected


@examples(60)
@given(blocks, st.data())
def test_the_way_to_the_service_agrees_with_twins(block: RowBlock, data: st.DataObject) -> None:
    """Advantages, weights, filter and assembly, as a step runs them."""
    ours, expected = applied_to(block, data)
    same(ours.advantages_T, expected["advantages"])
    same(ours.is_trained_T, expected["trained"])
    assert dataclasses.astuple(ours.errors) == expected["counters"]
    spans = twin.spans(block.offsets.tolist())
    same(ours.trained_tokens_R, [sum(expected["trained"][at] for at in span) for span in spans])

    weights = data.draw(st.lists(st.sampled_from([0.0, 0.5, 3.0]), min_size=block.row_count, max_size=block.row_count))
    scaled = credit_on_tokens.scale(block, ours, np.array(weights, np.float64))
    values = [0.0] * block.token_count
    for span, weight in zip(spans, weights, strict=True):
        for at in span:
            values[at] = twin.single(expected["advantages"][at] * weight)
    same(np.abs(scaled.advantages_T), np.abs(values))
    is_zero = [all(not expected["trained"][at] or values[at] == 0 for at in span) for span in spans]
    same(scaled.is_zero_R, is_zero)

    kept = credit_on_tokens.filter_zero_advantages(scaled, is_enabled=True, is_zero_preserving=True)
    assert kept.kept_K.tolist() == [row for row, zero in enumerate(is_zero) if not zero]
    assert kept.is_sent == (not all(is_zero))
    assert kept.represented_tokens == sum(expected["trained"])

    rows = assemble(block, scaled, kept.kept_K, denominator=kept.represented_tokens)
    plain = {name: getattr(block, name).tolist() for name in ("tokens", "logprobs", "offsets")}
    wanted = twin.assemble(plain, values, expected["trained"], kept.kept_K.tolist(), 1 / (kept.represented_tokens + 1e-8))
    same(rows.input_tokens_S, wanted["input_tokens"])
    same(rows.target_tokens_S, wanted["target_tokens"])
    same(rows.logprobs_S, wanted["logprobs"])
    same(rows.is_trained_S, wanted["trained"])
    same(rows.offsets, wanted["offsets"])
    same(np.abs(rows.advantages_S), np.abs(wanted["advantages"]))
    assert not rows.advantages_S[~rows.is_trained_S].any()


def sample(rewards: list[float], depths: list[int]) -> RowBlock:
    """One row of two action tokens for each reward, trajectory after trajectory; the last call of each reported an error."""
    prompt, action, logprobs = np.array([1], np.uint32), np.array([2], np.uint32), np.array([-0.5], np.float32)
    calls = [
        Call(prompt, action, logprobs, "main", version=1),
        Call(np.array([1, 2, 3], np.uint32), action, logprobs, "main", version=2, is_error=True),
    ]
    items = [
        TrajectoryCalls(0, index, "root", depth, reward, calls)
        for index, (reward, depth) in enumerate(zip(rewards, depths, strict=True))
    ]
    return build_block(items, ("main",), ("root",))


def test_errors_are_never_rewarded() -> None:
    block = sample([1.0, 0.0, -1.0], [0, 0, 0])
    applied = credit_on_tokens.apply_advantages(block, block.row_reward, filter_errors=True)
    assert applied.advantages_T.reshape(3, 4)[:, [1, 3]].tolist() == [[1.0, 0.0], [0.0, 0.0], [-1.0, -1.0]]
    assert applied.trained_tokens_R.tolist() == [1, 2, 2]
    assert applied.errors == credit_on_tokens.ErrorCounters(3, 1, 2, 0)
    kept = credit_on_tokens.apply_advantages(block, block.row_reward, filter_errors=False)
    assert kept.trained_tokens_R.tolist() == [2, 2, 2]


@pytest.mark.parametrize("kind", ["level", "discount"])
def test_weights_agree_with_twins(kind: str) -> None:
    block = sample([1.0, 2.0, 3.0, -1.0], [0, 1, 1, 3])
    applied = credit_on_tokens.apply_advantages(block, block.row_reward, filter_errors=True)
    tokens = applied.trained_tokens_R.tolist()
    if kind == "level":
        ours = credit_on_tokens.level_weights(block, applied)
        close(ours, twin.level_weights(block.row_depth.tolist(), block.row_start.tolist(), tokens))
        assert ours[1] == ours[2] == ours[0] / 2
    else:
        ours = credit_on_tokens.discount_weights(block, applied, gamma=0.7)
        close(ours, twin.discount_weights(block.row_depth.tolist(), tokens, 0.7))
    close((ours * tokens).sum() / sum(tokens), 1.0)


@examples(60)
@given(blocks, st.data())
def test_distillation_agrees_with_twin(block: RowBlock, data: st.DataObject) -> None:
    rows = [data.draw(st.lists(st.floats(-20, 0, width=32), min_size=n, max_size=n)) for n in (np.diff(block.offsets) - 1).tolist()]
    teacher_T = teacher_column(block, [np.array(row, np.float32) for row in rows])
    coefficients = data.draw(st.tuples(st.floats(-3, 3), st.sampled_from([0.0, 0.5])))
    values = np.arange(block.row_count) - 1.5
    found = reverse_kl(block, teacher_T, values, kl_coefficient=coefficients[0], reward_coefficient=coefficients[1])
    plain = {name: getattr(block, name).tolist() for name in ("flags", "offsets", "logprobs")}
    expected, mean = twin.reverse_kl(plain, teacher_T.tolist(), values.tolist(), *coefficients)
    close(found.advantages_T, expected)
    assert (found.mean is None) == (mean is None)
    if mean is not None:
        assert found.mean == pytest.approx(mean, rel=1e-6, abs=1e-9)
    applied = credit_on_tokens.apply_advantages(block, found.advantages_T, filter_errors=False)
    same(applied.advantages_T, found.advantages_T)


def test_a_teacher_that_did_not_score_is_named() -> None:
    block = sample([1.0, 0.0], [0, 0])
    scored = [np.zeros(3, np.float32), np.array([0.0, np.nan, 0.0], np.float32)]
    with pytest.raises(DataError, match=r"teacher\[6\] is NaN: a target has a finite logprob"):
        reverse_kl(block, teacher_column(block, scored), np.zeros(2))
    with pytest.raises(ShapeError, match="2 logprobs for row 1, which has 3 targets"):
        teacher_column(block, [scored[0], scored[0][:2]])
    with pytest.raises(ShapeError, match="1 rows where 2"):
        teacher_column(block, scored[:1])
    with pytest.raises(DataError, match="coefficient"):
        reverse_kl(block, teacher_column(block, [scored[0]] * 2), np.zeros(2), kl_coefficient=math.inf)


def test_threads_make_no_difference() -> None:
    """Over more than two million tokens, which are shared among threads; the Rust tests do the same for more of them."""
    half = 1_100_000
    call = Call(np.arange(half, dtype=np.uint32), np.arange(7, dtype=np.uint32), -np.arange(7, dtype=np.float32), "main")
    items = [TrajectoryCalls(0, index, "root", 0, 0.5 - index, [call]) for index in range(2)]
    block = build_block(items, ("main",), ("root",))
    results = []
    for threads in (1, 2):
        applied = credit_on_tokens.apply_advantages(block, block.row_reward, filter_errors=True, threads=threads)
        scaled = credit_on_tokens.scale(block, applied, np.array([0.3, 0.7]), threads=threads)
        rows = assemble(block, scaled, np.arange(2), denominator=3, threads=threads)
        results.append([applied.trained_tokens_R, scaled.advantages_T, rows.advantages_S, rows.input_tokens_S, rows.logprobs_S])
    for alone, shared in zip(*results, strict=True):
        same(shared, alone)
    assert applied.trained_tokens == 14 and not (block.flags[:half] & ACTION).any()


def test_weights_need_tokens() -> None:
    block = sample([1.0], [0])
    nothing = credit_on_tokens.AppliedAdvantages(
        np.zeros(4, np.float32), np.zeros(4, np.bool_), np.zeros(1, np.int64), np.ones(1, np.bool_)
    )
    with pytest.raises(DataError, match="add up to nothing"):
        credit_on_tokens.level_weights(block, nothing)
    with pytest.raises(DataError, match="gamma"):
        credit_on_tokens.discount_weights(block, nothing, gamma=0)


@pytest.mark.parametrize(
    ("rewards", "enabled", "preserving", "kept", "is_sent"),
    [
        ([1.0, 0.0], True, True, [0], True),
        ([1.0, 0.0], False, True, [0, 1], True),
        ([1.0, 0.0], True, False, [0, 1], True),
        ([0.0, 0.0], True, True, [], False),
        ([0.0, 0.0], False, True, [0, 1], False),
        ([0.0, 0.0], False, False, [0, 1], True),
        ([], True, True, [], False),
    ],
)
def test_rows_without_advantage(rewards: list[float], enabled: bool, preserving: bool, kept: list[int], is_sent: bool) -> None:
    block = sample(rewards, [0] * len(rewards))
    applied = credit_on_tokens.apply_advantages(block, block.row_reward, filter_errors=False)
    result = credit_on_tokens.filter_zero_advantages(applied, is_enabled=enabled, is_zero_preserving=preserving)
    assert (result.kept_K.tolist(), result.is_sent, result.represented_tokens) == (kept, is_sent, 2 * len(rewards))


def test_assembled_rows_are_fresh_writable_views() -> None:
    block = sample([1.0, 2.0], [0, 0])
    applied = credit_on_tokens.apply_advantages(block, block.row_reward, filter_errors=False)
    rows = assemble(block, applied, np.array([1], np.int64), denominator=4)
    (row,) = rows
    assert row.input_tokens.tolist() == [1, 2, 3] and row.target_tokens.tolist() == [2, 3, 2]
    close(row.advantages, [0.5, 0.0, 0.5])
    for values in (row.input_tokens, row.target_tokens, row.logprobs, row.advantages):
        assert values.flags.writeable and values.flags.c_contiguous
        values[...] = 0
    assert block.tokens.any() and row.routing == -1
    with pytest.raises(IndexError):
        rows.row(1)
    with pytest.raises(DataError, match=r"kept\[0\] is 2"):
        assemble(block, applied, np.array([2], np.int64), denominator=4)
    with pytest.raises(ShapeError):
        assemble(sample([1.0], [0]), applied, np.array([0], np.int64), denominator=4)


@examples(60)
@given(blocks, st.data())
def test_metrics_agree_with_twin(block: RowBlock, data: st.DataObject) -> None:
    applied = credit_on_tokens.apply_advantages(block, np.ones(block.row_count), filter_errors=False)
    everything = np.arange(block.row_count, dtype=np.int64)
    rows = assemble(block, applied, everything, denominator=1)
    count = len(rows.logprobs_S)
    training = np.array(data.draw(st.lists(st.floats(-20, 0, width=32), min_size=count, max_size=count)), np.float32)
    clip = data.draw(st.none() | st.just((0.5, 1.5)))
    ours = training_metrics(rows, training, clip_bounds=clip)
    parts = [training[start:end] for start, end in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)]
    assert str(training_metrics(rows, parts, clip_bounds=clip)) == str(ours)
    if not applied.trained_tokens:
        assert ours is None
        return
    assert ours is not None
    expected = twin.metrics(rows.logprobs_S.tolist(), training.tolist(), rows.is_trained_S.tolist(), clip)
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(ours, name), value, rtol=1e-6, atol=1e-9, err_msg=name)


def test_metrics_name_the_row_that_does_not_fit() -> None:
    block = sample([1.0, 2.0], [0, 0])
    applied = credit_on_tokens.apply_advantages(block, block.row_reward, filter_errors=False)
    rows = assemble(block, applied, np.array([0, 1], np.int64), denominator=4)
    with pytest.raises(ShapeError, match="2 values for row 1, which has 3 targets"):
        training_metrics(rows, [np.zeros(3, np.float32), np.zeros(2, np.float32)])
    with pytest.raises(ShapeError, match="1 rows where 2"):
        training_metrics(rows, [np.zeros(3, np.float32)])


def test_other_dtypes_and_lengths_are_refused() -> None:
    block = sample([1.0], [0])
    with pytest.raises(DataError, match="advantages: int64"):
        credit_on_tokens.apply_advantages(block, np.ones(1, np.int64), filter_errors=True)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="advantages: 2 entries where 1"):
        credit_on_tokens.apply_advantages(block, np.ones(2), filter_errors=True)
