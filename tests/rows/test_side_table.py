"""Chunks that are not text, and loss inputs: through merging, choosing, joining, storing and assembling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from platoon.rows import codec
from platoon.rows.advantages import apply_advantages
from platoon.rows.assembly import assemble
from platoon.rows.block import DataError, RowBlock, ShapeError, concat
from platoon.rows.merge import Call, TrajectoryCalls, build_block
from platoon.rows.side import Chunk, RowSide, packed, row_sides, unpacked, with_loss_inputs

pytestmark = pytest.mark.unit

IMAGE = Chunk(1, 2, "image/png", b"\x89PNG")
SOUND = Chunk(5, 1, "dmel", b"tensor")


def block_with_chunks() -> RowBlock:
    """Two rows of one trajectory with the same image, and one row of plain text."""
    action, logprobs = np.array([7], np.uint32), np.array([-0.5], np.float32)
    prompts = [[1, 0, 0, 2], [1, 0, 0, 2, 7, 0], [3, 0, 0]]
    calls = [
        Call(np.array(prompt, np.uint32), action, logprobs, "main", chunks=chunks)
        for prompt, chunks in zip(prompts, [(IMAGE,), (IMAGE, SOUND), (IMAGE,)], strict=True)
    ]
    plain = Call(np.array([5], np.uint32), action, logprobs, "main")
    items = [TrajectoryCalls(0, 0, "root", 0, 1.0, calls), TrajectoryCalls(1, 0, "root", 0, 0.0, [plain])]
    return build_block(items, ("main",), ("root",))


def chunks_of(block: RowBlock) -> dict[int, tuple[Chunk, ...]]:
    return {row: side.chunks for row, side in row_sides(block).items()}


def inputs_of(side: RowSide) -> dict[str, Any]:
    return {name: values.tolist() for name, values in side.inputs.items()}


def test_chunks_stay_with_their_rows_and_equal_bytes_are_kept_once() -> None:
    block = block_with_chunks()
    assert block.offsets.tolist() == [0, 7, 11, 13]
    assert chunks_of(block) == {0: (IMAGE, SOUND), 1: (IMAGE,)}
    assert (block.side_names, block.item_bytes.tobytes()) == (("image/png", "dmel"), IMAGE.data + SOUND.data)
    last = block.select([1, 2])
    assert chunks_of(last) == {0: (IMAGE,)}
    assert last.item_bytes.tobytes() == IMAGE.data
    assert chunks_of(concat([last, block])) == {0: (IMAGE,), 2: (IMAGE, SOUND), 3: (IMAGE,)}
    assert chunks_of(codec.decode(codec.encode(block))) == chunks_of(block)


def test_what_lies_beside_the_tokens_is_in_the_digest() -> None:
    block = block_with_chunks()
    other = with_loss_inputs(block, [{}, {}, {"routing": np.array([3])}])
    assert len({block.digest(), other.digest(), with_loss_inputs(block, [{}, {"routing": np.array([3])}, {}]).digest()}) == 3


def test_loss_inputs_ride_along() -> None:
    targets = np.array([[1, 2], [3, 4]])
    inputs = [{}, {"target_tokens": targets}, {"weights": np.ones(1, np.float32), "target_tokens": targets[:1]}]
    block = codec.decode(codec.encode(with_loss_inputs(block_with_chunks(), inputs))).select([0, 2])
    sides = row_sides(block)
    assert (sides[0].chunks, sides[0].inputs) == ((IMAGE, SOUND), {})
    assert inputs_of(sides[1]) == {"target_tokens": [[1, 2]], "weights": [1.0]}
    applied = apply_advantages(block, block.row_reward, filter_errors=False)
    kept = assemble(block, applied, np.array([1]), denominator=1).sides_K
    assert list(kept) == [0] and inputs_of(kept[0]) == inputs_of(sides[1])
    assert list(assemble(block, applied, np.array([0, 1]), denominator=1).sides_K) == [0, 1]
    with pytest.raises(ShapeError, match="3 rows for a block of 2"):
        with_loss_inputs(block, inputs)
    with pytest.raises(DataError, match="int32"):
        with_loss_inputs(block, [{}, {"weights": np.ones(1, np.int32)}])  # type: ignore[dict-item]


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (2, 3, 1)])
def test_values_of_any_shape_are_packed(shape: tuple[int, ...]) -> None:
    for dtype in (np.int64, np.float32):
        values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        np.testing.assert_array_equal(unpacked(packed(values)), values, strict=True)


@pytest.mark.parametrize(
    "data", [b"", b"<i8 1", b"<i2 1\n\0\0", b"<i8 2\n" + bytes(8), b"<i8 -1\n", b"<i8 1e3\n", b"<f4  1\n" + bytes(4)]
)
def test_bytes_that_are_no_loss_input_are_refused(data: bytes) -> None:
    with pytest.raises(DataError, match="loss input"):
        unpacked(data)
