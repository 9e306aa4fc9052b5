"""What a row holds beside its tokens: pieces of its prompt that are not text, and loss inputs that it brings along.

In a block both are entries of the side table, which names bytes; here they are values. A chunk's bytes are whatever the adapter of
a training service makes of it. A loss input's begin with a line `<dtype> <length of each dimension>`, such as `<i8 3 2` for three
pairs; its values follow in C order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from platoon._native import DataError, ShapeError
from platoon.rows.block import RowBlock

LossInput = NDArray[np.int64] | NDArray[np.float32]
"""Of any shape: services know no other dtypes."""

_DTYPES: dict[str, np.dtype[Any]] = {"<i8": np.dtype("<i8"), "<f4": np.dtype("<f4")}
_HEADER_LIMIT = 256


@dataclass(frozen=True)
class Chunk:
    """A piece of a prompt that is not text: tokens `at` to `at + length` of the sequence, which are 0 there. name: its kind."""

    at: int
    length: int
    name: str
    data: bytes


@dataclass(frozen=True, eq=False)
class RowSide:
    """One row's chunks, by place, and its loss inputs, by name."""

    chunks: tuple[Chunk, ...] = ()
    inputs: Mapping[str, LossInput] = field(default_factory=dict)


def row_sides(block: RowBlock) -> dict[int, RowSide]:
    """What the rows that have anything beside their tokens have, by row. DataError for a loss input that does not read."""
    found: dict[int, tuple[list[Chunk], dict[str, LossInput]]] = {}
    entries = zip(block.side_row, block.side_at, block.side_length, block.side_name, block.side_item, strict=True)
    for row, at, length, name, item in entries:
        chunks, inputs = found.setdefault(int(row), ([], {}))
        data = block.item_bytes[block.item_offsets[item] : block.item_offsets[item + 1]].tobytes()
        if length:
            chunks.append(Chunk(int(at), int(length), block.side_names[name], data))
        else:
            inputs[block.side_names[name]] = unpacked(data)
    return {row: RowSide(tuple(chunks), inputs) for row, (chunks, inputs) in found.items()}


def with_loss_inputs(block: RowBlock, inputs_R: Sequence[Mapping[str, LossInput]]) -> RowBlock:
    """The same rows bringing these loss inputs along, one mapping a row, in place of any they had.

    Raises ShapeError for another number of mappings, DataError for values of another dtype than int64 and float32.
    """
    if len(inputs_R) != block.row_count:
        raise ShapeError(f"loss inputs: those of {len(inputs_R)} rows for a block of {block.row_count}")
    sides = row_sides(block)
    chunks_R = [sides[row].chunks if row in sides else () for row in range(block.row_count)]
    inputs = {name for mapping in inputs_R for name in mapping}
    names = {name: index for index, name in enumerate(sorted(inputs | {chunk.name for row in chunks_R for chunk in row}))}
    items: dict[bytes, int] = {}
    entries: list[tuple[int, int, int, int, int]] = []
    for row, (chunks, mapping) in enumerate(zip(chunks_R, inputs_R, strict=True)):
        for name, values in sorted(mapping.items()):
            entries.append((row, 0, 0, names[name], items.setdefault(packed(values), len(items))))
        for chunk in chunks:
            item = items.setdefault(chunk.data, len(items))
            entries.append((row, chunk.at, chunk.length, names[chunk.name], item))
    table = np.array(entries, np.int64).reshape(-1, 5)
    return replace(
        block,
        side_row=table[:, 0].astype(np.uint32),
        side_at=table[:, 1].astype(np.uint32),
        side_length=table[:, 2].astype(np.uint32),
        side_name=table[:, 3].astype(np.uint16),
        side_item=table[:, 4].astype(np.uint32),
        item_offsets=np.concatenate(([0], np.cumsum([len(item) for item in items]))).astype(np.int64),
        item_bytes=np.frombuffer(b"".join(items), np.uint8),
        side_names=tuple(names),
    )


def packed(values: LossInput) -> bytes:
    """The bytes of a loss input. DataError for another dtype."""
    if values.dtype.str not in _DTYPES:
        raise DataError(f"loss input: {values.dtype} where int64 or float32 is expected")
    header = " ".join([values.dtype.str, *(str(length) for length in values.shape)])
    return header.encode() + b"\n" + values.tobytes()


def unpacked(data: bytes) -> LossInput:
    """The loss input of bytes, read-only. DataError for bytes that `packed` did not make."""
    header, found, _ = data[:_HEADER_LIMIT].partition(b"\n")
    parts = header.decode("ascii", "replace").split(" ")
    if not found or parts[0] not in _DTYPES or not all(part.isascii() and part.isdigit() for part in parts[1:]):
        raise DataError(f"loss input: its header does not read ({header[:40]!r})")
    dtype, shape = _DTYPES[parts[0]], tuple(int(part) for part in parts[1:])
    if math.prod(shape) * dtype.itemsize != len(data) - len(header) - 1:
        raise DataError(f"loss input: {len(data) - len(header) - 1} bytes for {parts[0]} of shape {shape}")
    array: LossInput = np.frombuffer(data, dtype, offset=len(header) + 1).reshape(shape)
    return array
