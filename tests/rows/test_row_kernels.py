"""Staleness, credit, advantages, assembly and metrics: each against its twin, then case by case."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon import _native
from platoon.rows import advantages as credit_on_tokens
from platoon.rows.assembly import assemble
from platoon.rows.block import DataError, RowBlock, ShapeError
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
ADVANTAGES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-30]) | st.floats(-4, 4)
ENDLESS = st.sampled_from([math.nan, math.inf, -math.inf, 1e300])
THREADS = (1, 2)


@pytest.fixture(scope="module", autouse=True)
def few_tokens_are_shared() -> Iterator[None]:
    """What kernels share among threads only for a million tokens, they share here token by token."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("apply_advantages", "assemble", "row_samples", "scale_rows"):
            patch.setattr(_native, name, functools.partial(getattr(_native, name), tokens_a_thread=1))
        yield


def drawn_bools(data: st.DataObject, count: int) -> list[bool]:
    return data.draw(st.lists(st.booleans(), min_size=count, max_size=count))


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
    is_stale, is_group_stale = twin.stale(block.row_version.tolist(), block.row_policy.tolist(), groups, current, bounds)
    same(ours.is_stale_R, is_stale)
    same(ours.is_group_stale_R, is_group_stale)


@examples(60)
@given(st.lists(st.lists(st.integers(-1, 5) | st.integers(0, 2**63 - 1), max_size=4), max_size=6))
def test_a_row_is_as_old_as_its_oldest_call(calls_of_rows: list[list[int]]) -> None:
    versions = [version for row in calls_of_rows for version in row]
    offsets = np.cumsum([0, *(len(row) for row in calls_of_rows)])
    assert oldest_versions(np.array(versions, np.int64), offsets).tolist() == twin.oldest(versions, offsets.tolist())


def test_staleness_by_policy_name() -> None:
    call = Call(np.array([1], np.uint32), np.array([2], np.uint32), np.zeros(1, np.float32), "main", version=3)
    block = build_block([TrajectoryCalls(0, 0, "root", 0, 0.0, [call])], ("main",), ("root",))
    assert not stale_rows(block, {"main": 5}, {"main": 2}).is_group_stale_R[0]
    assert stale_rows(block, {"main": 6}, {"main": 2}).is_group_stale_R[0]
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


@examples(60)
@given(blocks)
def test_what_rows_sampled_agrees_with_twin(block: RowBlock) -> None:
    counts, routing = twin.row_samples({name: values.tolist() for name, values in block.columns().items()})
    same(block.action_count_R, counts)
    same(block.routing_R, routing)
    for threads in THREADS:
        found = _native.row_samples(block.flags, block.call, block.offsets, block.call_routing, threads)
        same(found[0], counts)
        same(found[1], routing)


@examples(60)
@given(blocks, st.data())
def test_the_way_to_the_service_agrees_with_twins(block: RowBlock, data: st.DataObject) -> None:
    """Advantages, weights, filter and assembly, as a step runs them, with one thread and with two."""
    per_token, suppress, enabled, preserving = drawn_bools(data, 4)
    count = block.token_count if per_token else block.row_count
    drawn = data.draw(st.lists(ADVANTAGES, min_size=count, max_size=count))
    if drawn and data.draw(st.integers(0, 4)) == 0:
        drawn[data.draw(st.integers(0, count - 1))] = data.draw(ENDLESS)
    with np.errstate(over="ignore"):
        values = np.array(drawn, np.float32 if per_token else np.float64)
    weights = data.draw(st.lists(st.sampled_from([0.0, 0.5, 3.0]), min_size=block.row_count, max_size=block.row_count))
    plain = {name: values.tolist() for name, values in block.columns().items()}
    try:
        expected = twin.apply(plain["flags"], plain["offsets"], values.tolist(), per_token, suppress)
    except ValueError:
        for threads in THREADS:
            with pytest.raises(DataError, match=r"advantages\[[0-9]+\] is .* must be finite in single precision"):
                credit_on_tokens.apply_advantages(block, values, filter_errors=suppress, threads=threads)
        return
    spans = twin.spans(plain["offsets"])
    trained = [sum(expected["trained"][at] for at in span) for span in spans]
    scaled = [0.0] * block.token_count
    for span, weight in zip(spans, weights, strict=True):
        for at in span:
            scaled[at] = twin.single(expected["advantages"][at] * weight)
    is_zero = [all(not expected["trained"][at] or scaled[at] == 0 for at in span) for span in spans]
    kept, is_sent, denominator = twin.filter_zero(trained, is_zero, enabled, preserving)
    wanted = twin.assemble(plain, scaled, expected["trained"], kept, 1 / (denominator + 1e-8))
    for threads in THREADS:
        ours = credit_on_tokens.apply_advantages(block, values, filter_errors=suppress, threads=threads)
        same(ours.advantages_T, expected["advantages"])
        same(ours.is_trained_T, expected["trained"])
        same(ours.trained_tokens_R, trained)
        same(ours.is_zero_R, [all(expected["advantages"][at] == 0 for at in span) for span in spans])
        assert dataclasses.astuple(ours.errors) == expected["counters"]

        weighted = credit_on_tokens.scale(block, ours, np.array(weights, np.float64), threads=threads)
        same(np.abs(weighted.advantages_T), np.abs(scaled))
        same(weighted.is_zero_R, is_zero)

        found = credit_on_tokens.filter_zero_advantages(weighted, is_enabled=enabled, is_zero_preserving=preserving)
        assert (found.kept_K.tolist(), found.is_sent, found.represented_tokens) == (kept, is_sent, denominator)

        rows = assemble(block, weighted, found.kept_K, denominator=denominator, threads=threads)
        same(rows.input_tokens_S, wanted["input_tokens"])
        same(rows.target_tokens_S, wanted["target_tokens"])
        same(rows.logprobs_S, wanted["logprobs"])
        same(rows.is_trained_S, wanted["trained"])
        same(rows.offsets, wanted["offsets"])
        same(rows.routing_K, [twin.row_samples(plain)[1][row] for row in kept])
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


@examples(60)
@given(blocks, st.data())
def test_starts_that_survive_agree_with_twin(block: RowBlock, data: st.DataObject) -> None:
    is_kept = drawn_bools(data, block.row_count)
    has_tokens = [mark and count > 0 for mark, count in zip(drawn_bools(data, block.row_count), block.action_count_R, strict=True)]
    ours = _native.surviving_starts(block.row_start, np.array(has_tokens, np.bool_), np.array(is_kept, np.bool_))
    same(ours, twin.surviving_starts(agents_of(block), has_tokens, is_kept))


@examples(60)
@given(blocks, st.data())
def test_weights_agree_with_twins(block: RowBlock, data: st.DataObject) -> None:
    """Errors take tokens, and rows that lost all of theirs are no starts."""
    values = data.draw(st.lists(st.sampled_from([1.0, -1.0]), min_size=block.row_count, max_size=block.row_count))
    applied = credit_on_tokens.apply_advantages(block, np.array(values, np.float64), filter_errors=True)
    gamma = data.draw(st.floats(0.1, 3))
    depths, tokens = block.row_depth.tolist(), applied.trained_tokens_R.tolist()
    starts = twin.surviving_starts(agents_of(block), [count > 0 for count in tokens], [True] * block.row_count)
    if not sum(tokens):
        for weigh in (credit_on_tokens.level_weights, functools.partial(credit_on_tokens.discount_weights, gamma=gamma)):
            if block.row_count:
                with pytest.raises(DataError, match="add up to nothing"):
                    weigh(block, applied)
            else:
                assert not len(weigh(block, applied))
        return
    level = credit_on_tokens.level_weights(block, applied)
    close(level, twin.level_weights(depths, starts, tokens))
    discount = credit_on_tokens.discount_weights(block, applied, gamma=gamma)
    close(discount, twin.discount_weights(depths, tokens, gamma))
    for weights in (level, discount):
        close((weights * tokens).sum() / sum(tokens), 1.0)


def agents_of(block: RowBlock) -> list[tuple[int, int]]:
    return list(zip(block.row_member.tolist(), block.row_trajectory.tolist(), strict=True))


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


def test_what_would_train_on_no_number_is_refused() -> None:
    block = sample([1.0, 0.0], [0, 0])
    teacher_T = teacher_column(block, [np.zeros(3, np.float32)] * 2)
    with pytest.raises(DataError, match=r"advantages\[[0-9]+\] is .*inf: must be finite"):
        reverse_kl(block, teacher_T, np.array([0.0, 1e300]), reward_coefficient=1.0)
    logprobs = np.full_like(block.logprobs, np.nan)
    with pytest.raises(DataError, match=r"student\[1\] is NaN: what was sampled has a finite logprob"):
        _native.reverse_kl(block.flags, block.offsets, logprobs, teacher_T, np.zeros(2), 1.0, 0.0)
    applied = credit_on_tokens.apply_advantages(block, np.array([0.0, 1e38]), filter_errors=False)
    with pytest.raises(DataError, match=r"weights\[1\] is 10000000000: makes advantages of its row that are not finite"):
        credit_on_tokens.scale(block, applied, np.array([1.0, 1e10]))
    with pytest.raises(DataError, match=r"weights\[0\] is NaN: must be finite"):
        credit_on_tokens.scale(block, applied, np.array([np.nan, 1.0]))


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
