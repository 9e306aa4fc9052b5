"""A row block as bytes: one Arrow IPC stream, zstd level 1, checked by its digest.

The stream holds one record batch of one row, each column a list of its values; schema metadata holds rule, digest and names. Token
columns are stored as `docs/reference/row-block.md` says: what prompt tokens do not have is left out, and columns of four bytes are
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

# What a stream takes beside its columns and names: some kilobytes.
_HEADER_BYTES = 1 << 16

_RULE = b"platoon.rule"
_DIGEST = b"platoon.digest"
_NAMES = b"platoon.names"

_TOKEN_COLUMNS = ("tokens", "logprobs", "flags", "call")
_STORED_TOKENS: dict[str, np.dtype[Any]] = {
    "token_low": np.dtype("<u2"),
    "token_planes": np.dtype("u1"),
    "logprob_low": np.dtype("<u2"),
    "logprob_high": np.dtype("<u2"),
    "span_start": np.dtype("<i8"),
    "span_end": np.dtype("<i8"),
    "span_call": np.dtype("<u4"),
    "span_flags": np.dtype("u1"),
}
_OTHERS = {name: dtype for name, dtype in COLUMNS.items() if name not in _TOKEN_COLUMNS}
STORED_COLUMNS: dict[str, np.dtype[Any]] = _STORED_TOKENS | _OTHERS
"""Name and dtype of each column of the stream, in order."""


def encode(block: RowBlock) -> memoryview:
    """The block as bytes."""
    import pyarrow as pa

    names = json.dumps({"policies": block.policies, "roles": block.roles, "side": block.side_names})
    metadata = {_RULE: BLOCK_RULE, _DIGEST: block.digest(), _NAMES: names}
    values = _native.to_stored(block) | {name: getattr(block, name) for name in _OTHERS}
    columns = [
        pa.LargeListArray.from_arrays(pa.array([0, len(values[name])], pa.int64()), pa.array(values[name]))
        for name in STORED_COLUMNS
    ]
    schema = _schema().with_metadata(metadata)
    # A stream that grows would move what it holds again and again; of an array that is too large only what is written takes memory.
    largest = _HEADER_BYTES + len(names) + sum(_largest_bytes(column) for column in values.values())
    space = np.empty(largest, np.uint8)
    sink = pa.FixedSizeBufferWriter(pa.py_buffer(space))
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return space.data[: sink.tell()]


def _largest_bytes(column: NDArray[Any]) -> int:
    """What a column may take if compression makes it larger: a little more than by zstd's bound, and a prefix."""
    return column.nbytes + column.nbytes // 128 + 1024


def decode(data: bytes | memoryview, *, limit_bytes: int = LIMIT_BYTES) -> RowBlock:
    """The block that `encode` wrote.

    Raises DataError for another rule, damaged bytes, columns that are not what the digest says, and stored columns that would take
    more than `limit_bytes`.
    """
    import pyarrow as pa

    try:
        # `read_schema` of a lone message does not verify what it reads; opening the stream does.
        schema = pa.ipc.open_stream(pa.py_buffer(data)).schema
        metadata = schema.metadata or {}
        _check_rule(metadata.get(_RULE, b"").decode("utf-8", "replace"))
        if not schema.equals(_schema()):
            raise DataError("row block: its columns are not those of its rule")
        messages = iter(pa.ipc.MessageReader.open_stream(pa.py_buffer(data)))
        next(messages)
        message = next(messages)
        claimed = claimed_bytes(message)
        if claimed > limit_bytes:
            raise DataError(f"row block: it would take {claimed} bytes, and {limit_bytes} are allowed")
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)
        if batch.num_rows != 1:
            raise DataError(f"row block: {batch.num_rows} records where 1 is expected")
        values = {name: _values(batch.column(name)) for name in STORED_COLUMNS}
        names = json.loads(metadata.get(_NAMES, b""))
        policies, roles, side_names = tuple(names["policies"]), tuple(names["roles"]), tuple(names["side"])
    except (pa.ArrowException, OSError, KeyError, TypeError, StopIteration) as error:
        raise DataError(f"row block: damaged ({error})") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"row block: its names do not read ({error})") from error
    tokens = _native.from_stored(*(values[name] for name in _STORED_TOKENS))
    columns: dict[str, Any] = dict(zip(_TOKEN_COLUMNS, tokens, strict=True)) | {name: values[name] for name in _OTHERS}
    block = RowBlock(**columns, policies=policies, roles=roles, side_names=side_names)
    expected = metadata.get(_DIGEST, b"").decode("utf-8", "replace")
    if block.digest() != expected:
        raise DataError(f"row block: its digest is {block.digest()}, not {expected or 'given'}")
    return block


def _check_rule(rule: str) -> None:
    if rule != BLOCK_RULE:
        raise DataError(f"row block: rule {rule or 'missing'!r}, and this version reads {BLOCK_RULE}")


def _schema() -> Any:
    """The stored columns as Arrow types."""
    import pyarrow as pa

    return pa.schema([(name, pa.large_list(pa.from_numpy_dtype(dtype))) for name, dtype in STORED_COLUMNS.items()])


def _values(column: Any) -> NDArray[Any]:
    """The values of a one-row list column, without a copy."""
    values = column.flatten()
    if values.null_count or column.null_count:
        raise DataError("row block: a column with nulls")
    result: NDArray[Any] = values.to_numpy(zero_copy_only=True)
    return result
