"""The one module that makes the SDK's training objects from columns.

`WireRows` are rows as a loss reads them, end to end in a few buffers: fresh, writable and contiguous, because the SDK copies
read-only arrays. The chunk of a row is built without the SDK's validation, from a view of the token buffer: the bytes on the wire
are those of a list of integers (a test compares them), at a tenth of the cost. This holds for forward and backward alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from platoon.rows.assembly import AssembledRows
from platoon.train.objectives.loss import LossSettings


@dataclass(frozen=True)
class WireRows:
    """Rows ready for one forward/backward, prompts and targets aligned.

    tokens_T: int32 inputs, each row's sequence but its last token. targets_T: int64 next tokens. inputs_T: float32 columns by name
    (`logprobs`, `advantages`, or `weights`). offsets: int64, shape (R+1,), row boundaries in all of them.
    """

    tokens_T: npt.NDArray[np.int32]
    targets_T: npt.NDArray[np.int64]
    inputs_T: Mapping[str, npt.NDArray[np.float32]]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, index: int) -> slice:
        """Where one row's tokens stand."""
        return slice(int(self.offsets[index]), int(self.offsets[index + 1]))

    @cached_property
    def digest(self) -> str:
        """`sha256:<hex>` over the names, lengths and little-endian bytes of all columns."""
        hasher = hashlib.sha256(b"wire-rows/1\0")
        columns = {"tokens": self.tokens_T, "targets": self.targets_T, "offsets": self.offsets, **self.inputs_T}
        for name in sorted(columns):
            column = np.ascontiguousarray(columns[name])
            hasher.update(f"{name}\0{column.dtype.str}\0{column.size}\0".encode())
            hasher.update(column.data)
        return f"sha256:{hasher.hexdigest()}"


def wire_rows(rows: AssembledRows, loss: LossSettings) -> WireRows:
    """Assembled rows with the inputs of their loss; the buffers are the same."""
    return WireRows(rows.input_tokens_S, rows.target_tokens_S, loss.inputs(rows), rows.offsets)


def datums(rows: WireRows) -> Sequence[Any]:
    """One `tinker.Datum` a row, in order, over views of the buffers."""
    import tinker

    built = []
    for index in range(len(rows)):
        place = rows.row(index)
        chunk = tinker.EncodedTextChunk.model_construct(tokens=rows.tokens_T[place])
        length = place.stop - place.start
        inputs = {"target_tokens": tinker.TensorData(data=rows.targets_T[place], dtype="int64", shape=[length])}
        for name, column in rows.inputs_T.items():
            inputs[name] = tinker.TensorData(data=column[place], dtype="float32", shape=[length])
        built.append(tinker.Datum(model_input=tinker.ModelInput.model_construct(chunks=[chunk]), loss_fn_inputs=inputs))
    return built


def returned_logprobs(outputs: Sequence[Any]) -> npt.NDArray[np.float32]:
    """float32, all rows end to end: the learner's logprobs of the targets, from a forward/backward's `loss_fn_outputs`."""
    parts = []
    for output in outputs:
        value = output["logprobs"]
        column = value.to_numpy() if hasattr(value, "to_numpy") else np.asarray(value)
        parts.append(np.asarray(column, dtype=np.float32).reshape(-1))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)
