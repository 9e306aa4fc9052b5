"""Columns that no block has: whatever they hold, a kernel gives a result or an error that names the fault, and never panics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon import _native
from platoon.rows.block import COLUMNS, DataError, RowBlock, ShapeError
from tests.properties import examples
from tests.rows.generated import blocks

pytestmark = pytest.mark.unit

INTEGERS = {
    np.dtype("u1"): st.integers(0, 7) | st.integers(0, 255),
    np.dtype("<u2"): st.integers(0, 2) | st.integers(0, 2**16 - 1),
    np.dtype("<u4"): st.integers(0, 4) | st.integers(0, 2**32 - 1),
    np.dtype("<i8"): st.integers(-1, 6) | st.integers(-(2**63), 2**63 - 1),
    np.dtype("?"): st.booleans(),
}
FLOATS = st.sampled_from([0.0, -0.0, 1.0, -1.5, np.nan, np.inf, -np.inf, 1e-40, 3e38])


def column(dtype: Any, size: int | None = None) -> st.SearchStrategy[Any]:
    """A column of any length, or mostly of `size`."""
    dtype = np.dtype(dtype)
    values = FLOATS if dtype.kind == "f" else INTEGERS[dtype]
    lengths = st.lists(values, max_size=6) if size is None else st.lists(values, min_size=size, max_size=size)
    return (lengths if size is None else lengths | st.lists(values, max_size=6)).map(lambda drawn: np.array(drawn, dtype))


def offsets(tokens: int) -> st.SearchStrategy[Any]:
    """Bounds that mostly rise to `tokens`."""
    rising = st.sets(st.integers(1, max(1, tokens - 1)), max_size=3).map(
        lambda cuts: np.array(sorted({0, tokens, *cuts}), np.int64)
    )
    return rising | column("<i8")


def refuses_or_works(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (DataError, ShapeError):
        return None


@examples(80)
@given(st.data())
def test_kernels_on_rows(data: st.DataObject) -> None:
    draw, tokens, rows = data.draw, data.draw(st.integers(0, 5)), data.draw(st.integers(0, 3))
    flags, bounds = draw(column("u1", tokens)), draw(offsets(tokens))
    floats, logprobs = draw(column("f4", tokens)), draw(column("f4", tokens))
    values, is_trained = draw(column("f8", rows)), draw(column("?", tokens))
    threads = draw(st.sampled_from([(1, 1), (2, 1), (2**40, 1), (2, 0), (2**40, 2**40)]))
    refuses_or_works(_native.apply_advantages, flags, bounds, values, False, draw(st.booleans()), *threads)
    refuses_or_works(_native.apply_advantages, flags, bounds, floats, True, draw(st.booleans()), *threads)
    refuses_or_works(_native.row_totals, floats, is_trained, bounds)
    refuses_or_works(_native.scale_rows, floats, bounds, values, *threads)
    refuses_or_works(_native.reverse_kl, flags, bounds, floats, logprobs, values, draw(FLOATS), draw(FLOATS))
    refuses_or_works(_native.training_metrics, floats, logprobs, is_trained, draw(st.none() | st.tuples(FLOATS, FLOATS)))
    kept, ids = draw(column("<i8")), draw(column("<u4", tokens))
    refuses_or_works(_native.assemble, ids, logprobs, floats, is_trained, bounds, kept, draw(FLOATS), *threads)
    refuses_or_works(_native.row_samples, flags, draw(column("<u4", tokens)), bounds, draw(column("<i8")), *threads)
    refuses_or_works(
        _native.filter_zero, draw(column("<i8", rows)), draw(column("?", rows)), draw(st.booleans()), draw(st.booleans())
    )


@examples(80)
@given(st.data())
def test_kernels_on_groups_and_agents(data: st.DataObject) -> None:
    draw, rows = data.draw, data.draw(st.integers(0, 4))
    versions, policies, groups = draw(column("<i8", rows)), draw(column("<u2", rows)), draw(column("<u4", rows))
    current = draw(st.lists(INTEGERS[np.dtype("<i8")], max_size=3))
    bounds = draw(st.lists(st.none() | INTEGERS[np.dtype("<i8")], max_size=3))
    count = draw(st.sampled_from([0, 1, 5, 2**40]))
    refuses_or_works(_native.stale_rows, versions, policies, groups, count, current, bounds)
    refuses_or_works(_native.oldest_versions, versions, draw(offsets(rows)))
    keys = draw(st.lists(column("<i8", rows) | column("<u4", rows) | column("<u2", rows), max_size=3))
    numbers = refuses_or_works(_native.dense_keys, keys)
    assert numbers is None or not len(numbers) or numbers.max() < len(numbers)
    rewards, is_peer = draw(column("f8", rows)), draw(column("?", rows))
    refuses_or_works(_native.baselines, keys, rewards, is_peer, draw(st.booleans()))
    starts, depths = draw(column("u1", rows)), draw(column("<u2", rows))
    refuses_or_works(_native.surviving_starts, starts, is_peer, draw(column("?", rows)))
    refuses_or_works(_native.level_weights, depths, starts, versions)
    refuses_or_works(_native.discount_weights, depths, versions, draw(FLOATS))


@examples(80)
@given(st.data())
def test_kernels_on_tasks(data: st.DataObject) -> None:
    draw, tasks = data.draw, data.draw(st.integers(0, 4))
    passes, failures, versions = draw(column("f8", tasks)), draw(column("f8", tasks)), draw(column("<i8", tasks))
    groups, count = draw(column("<u4", tasks)), draw(st.sampled_from([0, 1, 3, 2**40]))
    attempts = [draw(column(dtype, 2)) for dtype in ("<u4", "<i8", "<u4", "<u4")]
    refuses_or_works(_native.add_attempts, passes, failures, versions, *attempts)
    refuses_or_works(_native.posteriors, passes, failures, versions, groups, count, draw(INTEGERS[np.dtype("<i8")]))
    refuses_or_works(_native.outlook, passes, failures, draw(st.sampled_from([0, 1, 8, 2**32 - 1])))
    refuses_or_works(_native.label_summary, groups, count, passes, failures, draw(column("u1", tasks)))
    size, candidates = draw(st.sampled_from([1, 4096, 4097])), draw(st.sampled_from([0, 2, 2**40]))
    refuses_or_works(_native.thompson_draw, passes, failures, draw(column("?", tasks)), size, candidates, bytes(16))


@examples(80)
@given(blocks, st.data())
def test_kernels_on_blocks_that_were_changed_behind_their_back(block: RowBlock, data: st.DataObject) -> None:
    """One or two columns are others than the block was checked with."""
    changed = data.draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=2, unique=True))
    values = block.columns() | {name: data.draw(column(COLUMNS[name], len(getattr(block, name)))) for name in changed}
    odd = SimpleNamespace(**values)
    names = [list(block.policies), list(block.roles), list(block.side_names)]
    refuses_or_works(_native.check_block, odd, 2, 3, len(names[2]))
    refuses_or_works(_native.block_digest, odd, *names)
    refuses_or_works(_native.select_rows, odd, data.draw(column("<i8")))
    maps = [data.draw(st.lists(st.integers(0, 2**16 - 1), max_size=3)) for _ in range(3)]
    refuses_or_works(_native.concat_blocks, [odd, block], *([one, one] for one in maps))
    spans = refuses_or_works(_native.stored_spans, odd)
    if spans is not None:
        end = data.draw(st.integers(0, 9))
        part = refuses_or_works(_native.stored_part, odd.tokens, odd.logprobs, *spans[:2], 0, end)
        refuses_or_works(_native.from_stored, [] if part is None else [part], *spans)


@examples(80)
@given(blocks, st.data())
def test_stored_columns_that_were_changed(block: RowBlock, data: st.DataObject) -> None:
    spans = list(_native.stored_spans(block))
    cut = data.draw(st.integers(0, block.token_count))
    bounds = [(0, cut), (cut, block.token_count)]
    parts = [list(_native.stored_part(block.tokens, block.logprobs, *spans[:2], *part)) for part in bounds]
    columns = _native.from_stored([tuple(part) for part in parts], *spans)
    for values, name in zip(columns, ("tokens", "logprobs", "flags", "call"), strict=True):
        np.testing.assert_array_equal(values, getattr(block, name))
    changed = data.draw(st.sampled_from([*parts, spans]))
    index = data.draw(st.integers(0, 3))
    changed[index] = data.draw(column(changed[index].dtype, len(changed[index])))
    refuses_or_works(_native.from_stored, [tuple(part) for part in parts], *spans)
    refuses_or_works(_native.stored_part, block.tokens, block.logprobs, *spans[:2], cut, 2**40)


@examples(60)
@given(st.data())
def test_calls_of_any_content(data: st.DataObject) -> None:
    draw = data.draw
    merger = _native.Merger(["main"], ["root"])
    for _ in range(3):
        if draw(st.booleans()):
            refuses_or_works(merger.begin, 0, 0, "root", 0, draw(FLOATS))
        tokens = draw(st.integers(0, 3))
        chunk = SimpleNamespace(
            at=draw(INTEGERS[np.dtype("<u4")]),
            length=draw(INTEGERS[np.dtype("<u4")]),
            name="image",
            data=draw(st.binary(max_size=2)),
        )
        call = SimpleNamespace(
            prompt=draw(column("<u4")),
            action=draw(column("<u4", tokens)),
            logprobs=draw(column("f4", tokens)),
            policy="main",
            version=draw(INTEGERS[np.dtype("<i8")]),
            routing=draw(INTEGERS[np.dtype("<i8")]),
            is_error=draw(st.booleans()),
            is_message=draw(st.booleans()),
            chunks=draw(st.lists(st.just(chunk), max_size=2)),
        )
        refuses_or_works(merger.push, call)
    values = merger.finish()
    RowBlock(**values, policies=("main",), roles=("root",))
