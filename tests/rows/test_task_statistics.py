"""Evidence, posteriors and Thompson draws: against the twins, against numpy's generator, and against published vectors."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.rows import task_statistics as statistics
from platoon.rows.block import DataError, ShapeError
from tests.properties import examples
from tests.twins import task_statistics as twin

pytestmark = pytest.mark.unit

VECTORS = json.loads((Path(__file__).resolve().parents[2] / "native/rows/draw_vectors.json").read_text())
TASKS = 5
COUNTS = st.integers(0, 2**32 - 1) | st.integers(0, 4)
VERSIONS = st.integers(0, 2**62) | st.integers(0, 100)


def column(rows: list[tuple[Any, ...]], index: int, dtype: Any) -> Any:
    return np.array([row[index] for row in rows], dtype)


@examples(60)
@given(st.lists(st.tuples(st.integers(0, TASKS - 1), VERSIONS, COUNTS, COUNTS), max_size=12), st.integers(0, 2**63 - 1))
def test_statistics_agree_with_twins(attempts: list[tuple[int, int, int, int]], now: int) -> None:
    dtypes = (np.uint32, np.int64, np.uint32, np.uint32)
    evidence = statistics.add_attempts(
        statistics.Evidence.none(TASKS), *(column(attempts, index, dtype) for index, dtype in enumerate(dtypes))
    )
    expected = twin.add_attempts([(0.0, 0.0, -1)] * TASKS, attempts)
    np.testing.assert_allclose(evidence.passes_N, column(expected, 0, float), rtol=1e-6)
    np.testing.assert_allclose(evidence.failures_N, column(expected, 1, float), rtol=1e-6)
    np.testing.assert_array_equal(evidence.version_N, column(expected, 2, np.int64))

    entries = [0, 1, 0, 1, 1]
    seen = statistics.posteriors(evidence, np.array(entries, np.uint32), entry_count=2, version=now)
    parameters = twin.posteriors(expected, entries, now)
    np.testing.assert_allclose(seen.alpha_N, column(parameters, 0, float), rtol=1e-6)
    np.testing.assert_allclose(seen.beta_N, column(parameters, 1, float), rtol=1e-6)

    ahead = statistics.outlook(seen, group_size=7)
    wanted = [twin.outlook(alpha, beta, 7) for alpha, beta in zip(seen.alpha_N.tolist(), seen.beta_N.tolist(), strict=True)]
    np.testing.assert_allclose(ahead.pass_at_N, column(wanted, 0, float), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(ahead.informative_at_N, column(wanted, 1, float), rtol=1e-6, atol=1e-12)
    assert [statistics.BANDS[band] for band in ahead.band_N] == [item[2] for item in wanted]


PARAMETERS = st.floats(1e-3, 1e4)


@examples(60)
@given(
    st.lists(st.tuples(PARAMETERS, PARAMETERS, st.booleans()), max_size=20),
    st.integers(1, 16),
    st.integers(0, 25),
    st.binary(min_size=16, max_size=16),
)
def test_draws_agree_with_twin(tasks: list[tuple[float, float, bool]], size: int, candidates: int, key: bytes) -> None:
    seen = statistics.Posteriors(column(tasks, 0, float), column(tasks, 1, float), np.ones(1))
    draw = statistics.thompson_draw(seen, column(tasks, 2, bool), group_size=size, candidates=candidates, key=key)
    expected = twin.thompson_draw([task[:2] for task in tasks], [task[2] for task in tasks], size, candidates, key)
    if expected is None:
        assert draw is None
        return
    assert draw is not None and draw.score == pytest.approx(expected[2], rel=1e-6, abs=1e-12)
    # Rates next to 0 or 1 have scores that differ by rounding alone, and either may come first.
    assert draw.task == expected[0] or expected[2] < 1e-12
    assert draw.task != expected[0] or draw.rate == pytest.approx(expected[1], rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("vector", VECTORS["draws"], ids=lambda vector: vector["name"])
def test_published_draws(vector: dict[str, Any]) -> None:
    seen = statistics.Posteriors(np.array(vector["alpha"]), np.array(vector["beta"]), np.ones(1))
    is_eligible = np.array(vector["eligible"], np.bool_)
    key = bytes.fromhex(vector["key"])
    draw = statistics.thompson_draw(seen, is_eligible, group_size=vector["group_size"], candidates=vector["candidates"], key=key)
    assert draw is not None and [draw.task, draw.rate, draw.score] == [vector["task"], vector["rate"], vector["score"]]


def test_the_generator_is_numpys() -> None:
    key = hashlib.sha256(b"0:pass_rate@main:17").digest()[:16]
    stream = twin.Stream(key, 5)
    words = [stream.word() for _ in range(8)]
    # numpy counts up before it draws.
    theirs = np.random.Philox(key=np.frombuffer(key, "<u8"), counter=np.array([2**64 - 1, 4, 0, 0], np.uint64))
    assert words == theirs.random_raw(8).tolist()


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1), st.floats(0, 1), st.integers(0, 4)), max_size=12), st.integers(0, 4))
def test_summaries_by_label_agree_with_twin(tasks: list[tuple[int, float, float, int]], count: int) -> None:
    labels, at_1, at_group, bands = [column(tasks, index, dtype) for index, dtype in enumerate((np.uint32, float, float, np.uint8))]
    single, group = statistics.Outlook(at_1, at_1, bands), statistics.Outlook(at_group, at_1, bands)
    if count > len(tasks) or max(labels, default=0) >= count > 0 or (tasks and not count):
        with pytest.raises(DataError, match="labels"):
            statistics.label_summary(single, group, labels, label_count=count)
        return
    summary = statistics.label_summary(single, group, labels, label_count=count)
    expected = twin.label_summary(labels.tolist(), count, at_1.tolist(), at_group.tolist(), bands.tolist())
    assert summary.tasks.tolist() == [item[0] for item in expected]
    np.testing.assert_allclose(summary.pass_at_1, column(expected, 1, float), rtol=1e-6)
    np.testing.assert_allclose(summary.pass_at_group, column(expected, 2, float), rtol=1e-6)
    assert summary.bands.tolist() == [item[3] for item in expected]


def test_labels_are_summed_up() -> None:
    seen = statistics.Posteriors(np.array([1.0, 1.0, 30.0]), np.array([1.0, 3.0, 1.0]), np.ones(1))
    single, group = statistics.outlook(seen, group_size=1), statistics.outlook(seen, group_size=4)
    summary = statistics.label_summary(single, group, np.array([1, 0, 1], np.uint32), label_count=2)
    assert summary.tasks.tolist() == [1, 2]
    np.testing.assert_allclose(summary.pass_at_1, [0.25, (0.5 + 30 / 31) / 2])
    np.testing.assert_allclose(summary.pass_at_group, [group.pass_at_N[1], group.pass_at_N[[0, 2]].mean()])
    assert summary.bands.tolist() == [[0, 0, 1, 0, 0], [0, 0, 1, 0, 1]]


def test_a_drawn_rate_is_a_number() -> None:
    for alpha, beta in ((5e-324, 5e-324), (5e-324, 1e300), (1e300, 5e-324), (1e-310, 1e-310)):
        seen = statistics.Posteriors(np.array([alpha]), np.array([beta]), np.ones(1))
        draw = statistics.thompson_draw(seen, np.ones(1, np.bool_), group_size=4, key=bytes(16))
        assert draw is not None and 0.0 <= draw.rate <= 1.0 and 0.0 <= draw.score <= 1.0
        outlook = statistics.outlook(seen, group_size=4)
        assert 0.0 <= outlook.pass_at_N[0] <= 1.0 and 0.0 <= outlook.informative_at_N[0] <= 1.0


def test_what_does_not_fit_is_refused() -> None:
    none = statistics.Evidence.none(2)
    one = np.ones(1, np.uint32)
    with pytest.raises(DataError, match=r"task\[0\] is 7: names no task"):
        statistics.add_attempts(none, 7 * one, np.zeros(1, np.int64), one, one)
    with pytest.raises(ShapeError):
        statistics.add_attempts(none, one, np.zeros(2, np.int64), one, one)
    seen = statistics.Posteriors(np.array([np.nan]), np.ones(1), np.ones(1))
    with pytest.raises(DataError, match=r"alpha\[0\] is NaN"):
        statistics.thompson_draw(seen, np.ones(1, np.bool_), group_size=4, key=bytes(16))
    with pytest.raises(DataError, match="group_size"):
        statistics.outlook(statistics.Posteriors(np.ones(1), np.ones(1), np.ones(1)), group_size=0)
    with pytest.raises(ValueError, match="16"):
        statistics.thompson_draw(
            statistics.Posteriors(np.ones(1), np.ones(1), np.ones(1)), np.ones(1, np.bool_), group_size=4, key=b"short"
        )
