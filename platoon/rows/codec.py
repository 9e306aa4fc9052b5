"""A row block as bytes: one Arrow IPC stream, zstd level 1, checked by its digest.

The stream holds one record batch of one row, each column a list of its values; schema metadata holds rule, digest and names. A
reader takes lengths from the arrays that Arrow has validated, never from metadata, and the rebuilt block passes every rule of a
block and must have the digest that was written. Bytes may differ between Arrow releases; the digest does not.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from platoon._native import BLOCK_RULE, DataError
from platoon.rows.block import COLUMNS, RowBlock

_RULE = b"platoon.rule"
_DIGEST = b"platoon.digest"
_NAMES = b"platoon.names"


def encode(block: RowBlock) -> bytes:
    """The block as bytes."""
    import pyarrow as pa

    names = {"policies": block.policies, "roles": block.roles}
    metadata = {_RULE: BLOCK_RULE, _DIGEST: block.digest(), _NAMES: json.dumps(names)}
    columns = [
        pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), pa.array(values))
        for values in block.columns().values()
    ]
    schema = pa.schema([(name, column.type) for name, column in zip(COLUMNS, columns, strict=True)], metadata=metadata)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return bytes(sink.getvalue())


def decode(data: bytes | memoryview) -> RowBlock:
    """The block that `encode` wrote. DataError for another rule, damaged bytes, and columns that are not what the digest says."""
    import pyarrow as pa

    try:
        reader = pa.ipc.open_stream(pa.py_buffer(data))
        metadata = reader.schema.metadata or {}
        _check_rule(metadata.get(_RULE, b"").decode("utf-8", "replace"))
        if reader.schema.names != list(COLUMNS):
            raise DataError("row block: its columns are not those of its rule")
        batch = reader.read_next_batch()
        batch.validate(full=True)
        if batch.num_rows != 1:
            raise DataError(f"row block: {batch.num_rows} records where 1 is expected")
        columns = {name: _column(batch.column(name), dtype) for name, dtype in COLUMNS.items()}
        names = json.loads(metadata.get(_NAMES, b""))
        policies, roles = tuple(names["policies"]), tuple(names["roles"])
    except (pa.ArrowException, OSError, KeyError, TypeError, StopIteration) as error:
        raise DataError(f"row block: damaged ({error})") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"row block: its names do not read ({error})") from error
    block = RowBlock(**columns, policies=policies, roles=roles)
    expected = metadata.get(_DIGEST, b"").decode("utf-8", "replace")
    if block.digest() != expected:
        raise DataError(f"row block: its digest is {block.digest()}, not {expected or 'given'}")
    return block


def _check_rule(rule: str) -> None:
    if rule != BLOCK_RULE:
        raise DataError(f"row block: rule {rule or 'missing'!r}, and this version reads {BLOCK_RULE}")


def _column(column: Any, dtype: np.dtype[Any]) -> Any:
    """The values of a one-row list column, without a copy."""
    values = column.flatten()
    if values.null_count or column.null_count:
        raise DataError("row block: a column with nulls")
    if values.type.to_pandas_dtype() != dtype.type:
        raise DataError(f"row block: a column of {values.type} where {dtype} is expected")
    return values.to_numpy(zero_copy_only=True)
