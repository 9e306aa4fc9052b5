"""The rules of a row block, choosing and joining rows, and the codec."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platoon.rows import codec
from platoon.rows.block import ACTION, COLUMNS, DataError, RowBlock, ShapeError, concat
from tests.properties import examples
from tests.rows.generated import POLICIES, ROLES, blocks
from tests.twins import row_block as twin

pytestmark = pytest.mark.unit

VECTORS = json.loads((Path(__file__).resolve().parents[2] / "native/rows/vectors.json").read_text())


def names(vector: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(vector[name]) for name in ("policies", "roles", "side_names")}


def columns(**changes: Any) -> dict[str, Any]:
    """The columns of a block of two rows, one of them changed."""
    vector = VECTORS["vectors"][1]
    values = {name: np.array(vector["columns"][name], dtype) for name, dtype in COLUMNS.items()}
    values |= names(vector)
    return values | changes


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_vectors(vector: dict[str, Any]) -> None:
    values = {name: np.array(vector["columns"][name], dtype) for name, dtype in COLUMNS.items()}
    block = RowBlock(**values, **names(vector))
    assert block.digest() == vector["digest"]
    assert block == block and block.row_count == len(vector["columns"]["row_member"])


def changed(name: str, index: int, value: Any) -> dict[str, Any]:
    values = columns()[name].copy()
    values[index] = value
    return {name: values}


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"tokens": np.zeros(7, np.int64)}, DataError, "tokens: int64"),
        ({"tokens": [1, 2]}, DataError, "tokens: list"),
        ({"flags": np.zeros((7, 1), np.uint8)}, ShapeError, "flags: 2 dimensions"),
        ({"logprobs": np.zeros(6, np.float32)}, ShapeError, "logprobs: 6 entries where 7"),
        ({"row_depth": np.zeros(1, np.uint16)}, ShapeError, "row_depth: 1 entries where 2"),
        ({"call_version": np.zeros(1, np.int64)}, ShapeError, "call_version: 1 entries where 3"),
        ({"offsets": np.zeros(0, np.int64)}, ShapeError, "offsets: 0 entries"),
        (changed("offsets", 0, 1), ShapeError, r"offsets\[0\] is 1"),
        (changed("offsets", 1, 7), ShapeError, r"offsets\[2\] is 7: a row holds"),
        (changed("offsets", 1, -4), ShapeError, r"offsets\[1\] is -4"),
        (changed("offsets", 2, 9), ShapeError, r"offsets\[2\] is 9: the last"),
        (changed("tokens", 3, 2**31), DataError, r"tokens\[3\]"),
        (changed("flags", 2, 8), DataError, r"flags\[2\] is 8"),
        (changed("flags", 2, 2), DataError, r"flags\[2\] is 2"),
        (changed("flags", 0, ACTION), DataError, r"flags\[0\] is 1: a row begins"),
        (changed("logprobs", 0, -1), DataError, r"logprobs\[0\]"),
        (changed("logprobs", 2, np.nan), DataError, r"logprobs\[2\]"),
        (changed("call", 2, 3), DataError, r"call\[2\] is 3: names no call"),
        (changed("call", 0, 0), DataError, r"call\[0\] is 0: a prompt token"),
        (changed("call_policy", 0, 2), DataError, r"call_policy\[0\] is 2"),
        (changed("call_policy", 0, 1), DataError, "another policy"),
        (changed("call_version", 0, -2), DataError, r"call_version\[0\]"),
        (changed("row_policy", 1, 9), DataError, r"row_policy\[1\] is 9"),
        (changed("row_role", 1, 9), DataError, r"row_role\[1\] is 9"),
        (changed("row_start", 1, 2), DataError, r"row_start\[1\] is 2"),
        (changed("row_reward", 1, np.inf), DataError, r"row_reward\[1\] is inf"),
        (changed("row_version", 0, 5), DataError, r"row_version\[0\] is 5"),
        ({"policies": ("main", "main")}, DataError, "policies: each name stands once"),
        ({"roles": ["root"]}, DataError, "roles: a tuple"),
    ],
)
def test_a_block_that_breaks_a_rule_is_refused(changes: dict[str, Any], error: type[Exception], text: str) -> None:
    RowBlock(**columns())
    with pytest.raises(error, match=text):
        RowBlock(**columns(**changes))


def test_arrays_are_read_only() -> None:
    block = RowBlock(**columns())
    for values in (*block.columns().values(), block.action_count_R, block.routing_R):
        with pytest.raises(ValueError, match="read-only"):
            values[...] = 0


def plain(block: RowBlock) -> dict[str, list[Any]]:
    return {name: values.tolist() for name, values in block.columns().items()}


def same_columns(block: RowBlock, expected: dict[str, list[Any]]) -> None:
    for name, dtype in COLUMNS.items():
        np.testing.assert_array_equal(getattr(block, name), np.array(expected[name], dtype), err_msg=name, strict=True)


@examples(60)
@given(blocks, st.data())
def test_selected_rows_agree_with_twin(block: RowBlock, data: st.DataObject) -> None:
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=block.row_count, max_size=block.row_count)), np.bool_)
    chosen = block.select(mask)
    same_columns(chosen, twin.select(plain(block), np.flatnonzero(mask).tolist()))
    same_columns(block.select(np.flatnonzero(mask)), plain(chosen))
    RowBlock(**chosen.columns(), policies=chosen.policies, roles=chosen.roles, side_names=chosen.side_names)


NAMES = st.permutations(["main", "helper", "other"])


@examples(60)
@given(st.lists(st.tuples(blocks, NAMES), min_size=2, max_size=3))
def test_joined_rows_agree_with_twin(named: list[tuple[RowBlock, list[str]]]) -> None:
    """Of blocks whose tables hold the same names and others, each in an order of its own."""
    parts = [replace(block, policies=tuple(names), roles=tuple(names)) for block, names in named]
    joined = concat(parts)
    maps = [
        {
            "policies": [joined.policies.index(name) for name in part.policies],
            "roles": [joined.roles.index(name) for name in part.roles],
            "side": [joined.side_names.index(name) for name in part.side_names],
        }
        for part in parts
    ]
    same_columns(joined, twin.concat([plain(part) for part in parts], maps))
    RowBlock(**joined.columns(), policies=joined.policies, roles=joined.roles, side_names=joined.side_names)


@examples(60)
@given(blocks, blocks)
def test_joined_blocks_part_again(left: RowBlock, right: RowBlock) -> None:
    joined = concat([left, right])
    rows = np.arange(joined.row_count)
    # Names stay when rows go: each side is compared with itself beside the other's names.
    first, last = concat([left, right.select([])]), concat([left.select([]), right])
    assert joined.select(rows < left.row_count).digest() == first.select(np.ones(left.row_count, np.bool_)).digest()
    assert joined.select(rows >= left.row_count).digest() == last.select(np.ones(right.row_count, np.bool_)).digest()


def test_joining_numbers_names_anew() -> None:
    left = RowBlock(**columns())
    values = columns(policies=("other", "main"), roles=("judge", "root"))
    joined = concat([left, RowBlock(**values)])
    assert joined.policies == ("main", "helper", "other")
    assert joined.roles == ("root", "worker", "judge")
    assert joined.row_policy.tolist() == [0, 1, 2, 0]
    assert concat([]).row_count == 0


@pytest.mark.parametrize(
    ("rows", "error"),
    [([True], ShapeError), ([2], DataError), ([-1], DataError), ([1, 0], DataError), ([0, 0], DataError), ([0.5], DataError)],
)
def test_rows_that_are_not_there_are_refused(rows: list[Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        RowBlock(**columns()).select(rows)


@examples(60)
@given(blocks)
def test_codec_round_trip(block: RowBlock) -> None:
    again = codec.decode(codec.encode(block))
    assert again.digest() == block.digest()
    assert (again.policies, again.roles) == (POLICIES, ROLES)


def test_names_of_any_length_and_columns_that_do_not_compress_are_stored() -> None:
    noise = np.random.default_rng(7).integers(1, 256, 300_000).astype(np.uint8)
    names = ("main", "é" * 100_000)
    values = columns(policies=names, side_names=("noise",))
    values |= {"side_row": np.zeros(1, np.uint32), "side_at": np.zeros(1, np.uint32), "side_length": np.zeros(1, np.uint32)}
    values |= {"side_name": np.zeros(1, np.uint16), "side_item": np.zeros(1, np.uint32)}
    values |= {"item_offsets": np.array([0, len(noise)]), "item_bytes": noise}
    block = RowBlock(**values)
    assert codec.decode(codec.encode(block)).digest() == block.digest()


@examples(60)
@given(blocks, st.integers(1, 9))
def test_parts_of_any_size_are_the_same_block(block: RowBlock, part_tokens: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "PART_TOKENS", part_tokens)
        data = codec.encode(block)
    assert len(list(pa.ipc.open_stream(data))) == max(1, -(-block.token_count // part_tokens))
    assert codec.decode(data).digest() == block.digest()


@examples(60)
@given(st.data())
def test_damaged_bytes_are_refused(data: st.DataObject) -> None:
    good = bytes(codec.encode(RowBlock(**columns())))
    at = data.draw(st.integers(0, len(good) - 1))
    damaged = (
        good[:at] if data.draw(st.booleans()) else good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]
    )
    try:
        again = codec.decode(damaged)
    except (DataError, ShapeError):
        return
    # Padding and flags of the container may change without effect; the content may not.
    assert again.digest() == RowBlock(**columns()).digest()


def test_another_rule_is_refused_by_name() -> None:
    schema = pa.schema([], metadata={"platoon.rule": "platoon-row-block-v9"})
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, schema).close()
    with pytest.raises(DataError, match=r"platoon-row-block-v9.*reads platoon-row-block-v2"):
        codec.decode(sink.getvalue().to_pybytes())


def test_a_block_that_claims_too_much_is_refused_before_it_is_unpacked() -> None:
    """Claims stand in the compressed bytes: a small file may name any size."""
    good = bytes(codec.encode(RowBlock(**columns())))
    with pytest.raises(DataError, match=r"it would take \d+ bytes, and 100 are allowed"):
        codec.decode(good, limit_bytes=100)
    types = [pa.large_list(pa.from_numpy_dtype(dtype)) for dtype in codec.STORED_COLUMNS.values()]
    columns_of_zeros = [pa.array([[0] * 10_000], kind) for kind in types]
    schema = pa.ipc.open_stream(good).schema
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns_of_zeros, schema=schema))
    packed = sink.getvalue().to_pybytes()
    assert len(packed) < 20_000
    claim = (40_000).to_bytes(8, "little")
    assert packed.count(claim) == sum(dtype.itemsize == 4 for dtype in codec.STORED_COLUMNS.values())
    with pytest.raises(DataError, match=r"it would take \d{19} bytes"):
        codec.decode(packed.replace(claim, (2**60).to_bytes(8, "little")))
    with pytest.raises(DataError, match="a buffer that claims -5 bytes"):
        codec.decode(packed.replace(claim, (-5).to_bytes(8, "little", signed=True)))
