"""A row block as bytes: one Arrow IPC stream, zstd level 1, checked by its digest.

The stream holds record batches of one row, each column a list of its values; schema metadata holds rule, digest and names. A batch
holds a part of the tokens, so that writing takes little more memory than what is written; the first holds all else. Token columns
are stored as `docs/reference/row-block.md` says: what prompt tokens do not have is left out, and columns of four bytes are
cut where compression changes, which makes them smaller and compresses them in a third of the time.

A reader adds up what the batch claims to need before it allocates any of it, takes lengths from the arrays that Arrow has
validated, and checks every rule of a block and the digest that was written. Bytes may differ between Arrow releases; the digest
does not.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from platoon import _native
from platoon._native import BLOCK_RULE, DataError
from platoon.rows.arrow_sizes import claimed_bytes
from platoon.rows.block import COLUMNS, RowBlock

LIMIT_BYTES = 1 << 31
"""What the stored columns may take unless a reader says otherwise: some 300 million tokens, and up to 13/4 of it as a block."""

PART_TOKENS = 1 << 22
"""Tokens of a batch; the last one has fewer."""

# What a stream and each of its batches take beside columns and names: some kilobytes.
_HEADER_BYTES = 1 << 16

_RULE = b"platoon.rule"
_DIGEST = b"platoon.digest"
_NAMES = b"platoon.names"

_TOKEN_COLUMNS = ("tokens", "logprobs", "flags", "call")
_PART: dict[str, np.dtype[Any]] = {
    "token_low": np.dtype("<u2"),
    "token_planes": np.dtype("u1"),
    "logprob_low": np.dtype("<u2"),
    "logprob_high": np.dtype("<u2"),
}
_SPANS: dict[str, np.dtype[Any]] = {
    "span_start": np.dtype("<i8"),
    "span_end": np.dtype("<i8"),
    "span_call": np.dtype("<u4"),
    "span_flags": np.dtype("u1"),
}
_OTHERS = {name: dtype for name, dtype in COLUMNS.items() if name not in _TOKEN_COLUMNS}
_ONCE: dict[str, np.dtype[Any]] = _SPANS | _OTHERS
STORED_COLUMNS: dict[str, np.dtype[Any]] = _PART | _ONCE
"""Name and dtype of each column of the stream, in order."""


def encode(block: RowBlock) -> memoryview:
    """The block as bytes."""
    import pyarrow as pa

    names = json.dumps({"policies": block.policies, "roles": block.roles, "side": block.side_names})
    metadata = {_RULE: BLOCK_RULE, _DIGEST: block.digest(), _NAMES: names}
    spans: tuple[NDArray[Any], ...] = _native.stored_spans(block)
    once: dict[str, NDArray[Any]] = dict(zip(_SPANS, spans, strict=True)) | {name: getattr(block, name) for name in _OTHERS}
    # A stream that grows would move what it holds again and again; of a buffer that is too large only what is written takes memory,
    # and Arrow keeps it for the next block.
    space = pa.allocate_buffer(_largest_bytes(block, once) + len(names))
    sink = pa.FixedSizeBufferWriter(space)
    # No thread of Arrow's: a rollout worker may be forked at any time, and two that share a core take longer than one.
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1), use_threads=False)
    schema = _schema().with_metadata(metadata)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for first in range(0, max(block.token_count, 1), PART_TOKENS):
            end = min(first + PART_TOKENS, block.token_count)
            part = _native.stored_part(block.tokens, block.logprobs, spans[0], spans[1], first, end)
            values: dict[str, NDArray[Any]] = dict(zip(_PART, part, strict=True))
            writer.write_batch(_batch(values if first else values | once, schema))
    return memoryview(space)[: sink.tell()]


def _batch(values: dict[str, NDArray[Any]], schema: Any) -> Any:
    """A batch of one row of lists; those of columns that are not given are empty."""
    import pyarrow as pa

    lists = []
    for name, dtype in STORED_COLUMNS.items():
        column = values.get(name, np.zeros(0, dtype))
        lists.append(pa.LargeListArray.from_arrays(pa.array([0, len(column)], pa.int64()), pa.array(column)))
    return pa.RecordBatch.from_arrays(lists, schema=schema)


def _largest_bytes(block: RowBlock, once: dict[str, NDArray[Any]]) -> int:
    """What a stream may take if compression makes every column larger: a little more than by zstd's bound."""
    parts = 1 + block.token_count // PART_TOKENS
    columns = block.tokens.nbytes + block.logprobs.nbytes + sum(column.nbytes for column in once.values())
    return columns + columns // 128 + (parts + 1) * _HEADER_BYTES


def decode(data: bytes | memoryview, *, limit_bytes: int = LIMIT_BYTES) -> RowBlock:
    """The block that `encode` wrote.

    Raises DataError for another rule, damaged bytes, columns that are not what the digest says, and stored columns that would take
    more than `limit_bytes`.
    """
    import pyarrow as pa

    try:
        # `read_schema` of a lone message does not verify what it reads; opening the stream does.
        reader = pa.ipc.open_stream(pa.py_buffer(data), options=pa.ipc.IpcReadOptions(use_threads=False))
        metadata = reader.schema.metadata or {}
        _check_rule(metadata.get(_RULE, b"").decode("utf-8", "replace"))
        if not reader.schema.equals(_schema()):
            raise DataError("row block: its columns are not those of its rule")
        _check_claims(data, limit_bytes)
        batches = [_lists(batch) for batch in reader]
        names = json.loads(metadata.get(_NAMES, b""))
        policies, roles, side_names = tuple(names["policies"]), tuple(names["roles"]), tuple(names["side"])
    except (pa.ArrowException, OSError, KeyError, TypeError) as error:
        raise DataError(f"row block: damaged ({error})") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"row block: its names do not read ({error})") from error
    if not batches or any(len(batch[name]) for batch in batches[1:] for name in _ONCE):
        raise DataError("row block: its first batch does not hold what stands once")
    parts = [tuple(batch[name] for name in _PART) for batch in batches]
    tokens = _native.from_stored(parts, *(batches[0][name] for name in _SPANS))  # type: ignore[arg-type]
    columns: dict[str, Any] = dict(zip(_TOKEN_COLUMNS, tokens, strict=True)) | {name: batches[0][name] for name in _OTHERS}
    block = RowBlock(**columns, policies=policies, roles=roles, side_names=side_names)
    expected = metadata.get(_DIGEST, b"").decode("utf-8", "replace")
    if block.digest() != expected:
        raise DataError(f"row block: its digest is {block.digest()}, not {expected or 'given'}")
    return block


def _check_rule(rule: str) -> None:
    if rule != BLOCK_RULE:
        raise DataError(f"row block: rule {rule or 'missing'!r}, and this version reads {BLOCK_RULE}")


def _check_claims(data: bytes | memoryview, limit_bytes: int) -> None:
    """DataError for messages other than the schema and record batches, and for batches that would take more than `limit_bytes`."""
    import pyarrow as pa

    messages = iter(pa.ipc.MessageReader.open_stream(pa.py_buffer(data)))
    next(messages, None)
    claimed = 0
    for message in messages:
        if message.type != "record batch":
            raise DataError(f"row block: a {message.type} where its columns are expected")
        claimed += claimed_bytes(message)
        if claimed > limit_bytes:
            raise DataError(f"row block: it would take {claimed} bytes, and {limit_bytes} are allowed")


def _schema() -> Any:
    """The stored columns as Arrow types."""
    import pyarrow as pa

    return pa.schema([(name, pa.large_list(pa.from_numpy_dtype(dtype))) for name, dtype in STORED_COLUMNS.items()])


def _lists(batch: Any) -> dict[str, NDArray[Any]]:
    """The values of a batch of one row of lists, without a copy."""
    batch.validate(full=True)
    if batch.num_rows != 1:
        raise DataError(f"row block: {batch.num_rows} records where 1 is expected")
    return {name: _values(batch.column(name)) for name in STORED_COLUMNS}


def _values(column: Any) -> NDArray[Any]:
    """The values of a one-row list column, without a copy."""
    values = column.flatten()
    if values.null_count or column.null_count:
        raise DataError("row block: a column with nulls")
    result: NDArray[Any] = values.to_numpy(zero_copy_only=True)
    return result
