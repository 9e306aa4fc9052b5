"""The one module that makes the SDK's training objects from columns.

`WireRows` are rows as a loss reads them, end to end in a few buffers: fresh, writable and contiguous, because the SDK copies
read-only arrays. The text of a row is built without the SDK's validation, from views of the token buffer: the bytes on the wire
are those of a list of integers (a test compares them), at a tenth of the cost. This holds for forward and backward alone.

What a row holds beside its tokens (`rows.side`) becomes the SDK's chunks and loss inputs. A chunk's name is `image/<format>`,
`image_asset_pointer/<format>` or `dmel`, and its bytes are the image, the location in UTF-8, or the tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from platoon.rows.assembly import AssembledRows
from platoon.rows.block import DataError
from platoon.rows.side import Chunk, RowSide
from platoon.train.objectives.loss import LossSettings


@dataclass(frozen=True)
class WireRows:
    """Rows ready for one forward/backward, prompts and targets aligned.

    tokens_T: int32 inputs, each row's sequence but its last token. targets_T: int64 next tokens. inputs_T: float32 columns by name
    (`logprobs`, `advantages`, or `weights`). offsets: int64, shape (R+1,), row boundaries in all of them. sides: what rows hold
    beside their tokens, by row; a loss input of theirs takes the place of a column's. routing_R: int64, the service's handles.
    """

    tokens_T: npt.NDArray[np.int32]
    targets_T: npt.NDArray[np.int64]
    inputs_T: Mapping[str, npt.NDArray[np.float32]]
    offsets: npt.NDArray[np.int64]
    sides: Mapping[int, RowSide] = field(default_factory=dict)
    routing_R: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, index: int) -> slice:
        """Where one row's tokens stand."""
        return slice(int(self.offsets[index]), int(self.offsets[index + 1]))


def wire_rows(rows: AssembledRows, loss: LossSettings) -> WireRows:
    """Assembled rows with the inputs of their loss; the buffers are the same."""
    columns = loss.inputs(rows)
    return WireRows(rows.input_tokens_S, rows.target_tokens_S, columns, rows.offsets, rows.sides_K, rows.routing_K)


def datums(rows: WireRows) -> Sequence[Any]:
    """One `tinker.Datum` a row, in order, over views of the buffers. DataError for a chunk of a kind that the SDK does not know."""
    return [_datum(rows, index) for index in range(len(rows))]


def _datum(rows: WireRows, index: int) -> Any:
    import tinker

    place = rows.row(index)
    length = place.stop - place.start
    side = rows.sides.get(index)
    inputs = {"target_tokens": tinker.TensorData(data=rows.targets_T[place], dtype="int64", shape=[length])}
    for name, column in rows.inputs_T.items():
        inputs[name] = tinker.TensorData(data=column[place], dtype="float32", shape=[length])
    if rows.routing_R is not None and rows.routing_R[index] >= 0:
        inputs["routing_handle"] = tinker.TensorData.from_numpy(rows.routing_R[index : index + 1].copy())
    if side is not None:
        inputs |= {name: tinker.TensorData.from_numpy(values.copy()) for name, values in side.inputs.items()}
    chunks = _chunks(rows.tokens_T[place], side.chunks if side is not None else ())
    return tinker.Datum(model_input=tinker.ModelInput.model_construct(chunks=chunks), loss_fn_inputs=inputs)


def _chunks(tokens_T: npt.NDArray[np.int32], beside: Sequence[Chunk]) -> list[Any]:
    """The chunks of a model input: text between the chunks that are none."""
    import tinker

    chunks: list[Any] = []
    end = 0
    for chunk in beside:
        if chunk.at > end:
            chunks.append(tinker.EncodedTextChunk.model_construct(tokens=tokens_T[end : chunk.at]))
        chunks.append(_chunk(chunk))
        end = chunk.at + chunk.length
    if end < len(tokens_T) or not chunks:
        chunks.append(tinker.EncodedTextChunk.model_construct(tokens=tokens_T[end:]))
    return chunks


def _chunk(chunk: Chunk) -> Any:
    from tinker.types.dmel_chunk import DmelChunk
    from tinker.types.image_asset_pointer_chunk import ImageAssetPointerChunk
    from tinker.types.image_chunk import ImageChunk

    kind, _, form = chunk.name.partition("/")
    if kind == "image" and form in ("png", "jpeg"):
        return ImageChunk(data=chunk.data, format=form, expected_tokens=chunk.length)
    if kind == "image_asset_pointer" and form in ("png", "jpeg"):
        return ImageAssetPointerChunk(location=chunk.data.decode(), format=form, expected_tokens=chunk.length)
    if chunk.name == "dmel":
        return DmelChunk(dmel=chunk.data)
    raise DataError(f"a chunk of kind {chunk.name!r}: the SDK knows image/png, image/jpeg, the same as asset pointers, and dmel")


def returned_logprobs(outputs: Sequence[Any]) -> npt.NDArray[np.float32]:
    """float32, all rows end to end: the learner's logprobs of the targets, from a forward/backward's `loss_fn_outputs`."""
    parts = []
    for output in outputs:
        value = output["logprobs"]
        column = value.to_numpy() if hasattr(value, "to_numpy") else np.asarray(value)
        parts.append(np.asarray(column, dtype=np.float32).reshape(-1))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)
