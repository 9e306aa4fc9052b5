"""The protobuf messages of the protocol, through the SDK's own generated module: datums in, logprobs and samples out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError
from tinker.proto import tinker_public_pb2 as pb

from platoon.local.learner import Example
from platoon.local.refusals import Refusal
from platoon.local.sampling_engine import SampleJob, ScoredPrompt

Array = npt.NDArray[Any]

MEDIA_TYPE = "application/x-protobuf"
NO_LOGPROB = -99999.0
_DTYPES = {pb.DTYPE_FLOAT32: "<f4", pb.DTYPE_INT64: "<i8", pb.DTYPE_INT32: "<i4"}
_MOST_DENSE_CELLS = 1 << 26


@dataclass(frozen=True)
class ForwardBackward:
    """A decoded forward_backward request."""

    model_id: str
    sequence_id: int
    examples: list[Example]
    loss_name: str
    config: dict[str, float | str]
    backward: bool


def decode_forward_backward(body: bytes) -> ForwardBackward:
    """Raises Refusal for bytes that are no such message, or hold chunks or tensors that are not served."""
    message = pb.ForwardBackwardRequest()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise Refusal(f"not a ForwardBackwardRequest: {error}") from error
    config: dict[str, float | str] = {
        key: value.text if value.HasField("text") else value.number for key, value in message.loss_fn_config_v2.items()
    } or dict(message.loss_fn_config)
    return ForwardBackward(
        model_id=message.model_id,
        sequence_id=message.seq_id,
        examples=[_example(datum) for datum in message.data],
        loss_name=message.loss_fn,
        config=config,
        backward=not message.forward_only,
    )


def _example(datum: Any) -> Example:
    parts = []
    for chunk in datum.model_input:
        if not chunk.HasField("encoded_text"):
            raise Refusal("only chunks of encoded text are served")
        parts.append(np.frombuffer(chunk.encoded_text.tokens, dtype="<i4"))
    tokens = np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64)
    inputs = {
        name: _tensor(tensor).astype(np.int64 if name == "target_tokens" else np.float32)
        for name, tensor in datum.loss_fn_inputs.items()
    }
    return Example(tokens, inputs)


def _tensor(tensor: Any) -> Array:
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        raise Refusal(f"tensors of dtype {tensor.dtype} are not served")
    shape = tuple(tensor.shape)
    try:
        if not tensor.HasField("sparse_csr"):
            values = np.frombuffer(tensor.dense, dtype=dtype)
            return values.reshape(shape or -1)
        return _dense(tensor.sparse_csr, dtype, shape)
    except (ValueError, IndexError) as error:
        raise Refusal(f"a tensor does not fit its shape {shape}: {error}") from error


def _dense(sparse: Any, dtype: str, shape: tuple[int, ...]) -> Array:
    """A compressed sparse row matrix with its empty cells as 0."""
    if len(shape) != 2 or not 0 <= shape[0] * shape[1] <= _MOST_DENSE_CELLS:
        raise ValueError("a sparse tensor is a matrix of a bounded size")
    values = np.frombuffer(sparse.values, dtype=dtype)
    starts = np.frombuffer(sparse.crow_indices, dtype="<i8")
    columns = np.frombuffer(sparse.col_indices, dtype="<i8")
    counts = np.diff(starts)
    if len(starts) != shape[0] + 1 or (counts < 0).any() or (len(columns) and columns.min() < 0):
        raise ValueError("row pointers or columns are out of order")
    dense = np.zeros(shape, dtype)
    dense[np.repeat(np.arange(shape[0]), counts), columns] = values
    return dense


def encode_logprobs(logprobs: Sequence[Array], loss: float) -> bytes:
    """ForwardBackwardOutput with one record of each datum's logprobs (float32, its own shape) and the summed loss."""
    output = pb.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord")
    record = output.loss_fn_outputs.add()
    record.type_tag = "ArrayRecord"
    record.num_datums = len(logprobs)
    column = record.fields["logprobs"]
    column.data = b"".join(np.ascontiguousarray(values, "<f4").tobytes() for values in logprobs)
    column.offsets = np.cumsum([0, *(4 * values.size for values in logprobs)]).astype("<i8").tobytes()
    column.dtype = pb.DTYPE_FLOAT32
    if logprobs and logprobs[0].ndim == 2:
        column.trailing_shape.append(logprobs[0].shape[1])
    output.metrics["loss:sum"] = loss
    output.metrics["tokens:sum"] = float(sum(len(values) for values in logprobs))
    return bytes(output.SerializeToString())


def encode_sample(job: SampleJob) -> bytes:
    """SampleResponse of a finished request."""
    response = pb.SampleResponse()
    for sequence in job.sequences:
        sampled = response.sequences.add()
        sampled.stop_reason = pb.STOP_REASON_STOP if sequence.stopped else pb.STOP_REASON_LENGTH
        sampled.tokens = np.array(sequence.tokens, "<i4").tobytes()
        sampled.logprobs = np.array(sequence.logprobs, "<f4").tobytes()
        if job.top_logprobs:
            _fill_top(sampled.topk_sampled_logprobs, sequence.alternatives, job.top_logprobs)
    if job.scored is not None:
        _fill_scores(response, job.scored, job.scores.logprobs, job.scores.top_k)
    return bytes(response.SerializeToString())


def _fill_scores(response: Any, scored: ScoredPrompt, logprobs: bool, top_k: int) -> None:
    if logprobs:
        response.prompt_logprobs = np.array(scored.logprobs, "<f4").tobytes()
    if top_k:
        _fill_top(response.topk_prompt_logprobs, scored.alternatives, top_k)


def _fill_top(message: Any, rows: Sequence[tuple[list[int], list[float]] | None], k: int) -> None:
    ids = np.zeros((len(rows), k), "<i4")
    values = np.full((len(rows), k), NO_LOGPROB, "<f4")
    for number, row in enumerate(rows):
        if row is not None:
            ids[number, : len(row[0])] = row[0]
            values[number, : len(row[1])] = row[1]
    message.token_ids = ids.tobytes()
    message.logprobs = values.tobytes()
    message.k = k
    message.length = len(rows)
