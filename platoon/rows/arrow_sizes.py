"""How much memory an Arrow record batch claims to need, read before anything is allocated for it.

Each compressed buffer begins with its uncompressed length, which a reader would allocate. The message's flatbuffer says where the
buffers lie; nothing of it is believed beyond that: every offset is checked against the bytes at hand.
"""

from __future__ import annotations

import struct
from typing import Any

from platoon._native import DataError

# Field numbers of the flatbuffer tables `Message` and `RecordBatch` in Arrow's format specification.
_MESSAGE_HEADER = 2
_BATCH_BUFFERS = 2
_BATCH_COMPRESSION = 3
_STORED_AS_IS = -1


def claimed_bytes(message: Any) -> int:
    """The sum of the buffer lengths of a record batch message (a `pyarrow.Message`) once uncompressed. DataError if malformed."""
    metadata, body = bytes(message.metadata), memoryview(message.body)
    try:
        batch = _follow(metadata, _field(metadata, _follow(metadata, 0), _MESSAGE_HEADER))
        buffers = _field(metadata, batch, _BATCH_BUFFERS)
        is_compressed = _field(metadata, batch, _BATCH_COMPRESSION) != 0
        if not buffers:
            return 0
        start = _follow(metadata, buffers)
        (count,) = struct.unpack_from("<I", metadata, start)
        if count * 16 > len(metadata):
            raise DataError(f"row block: {count} buffers in a header of {len(metadata)} bytes")
        places = (struct.unpack_from("<qq", metadata, start + 4 + 16 * index) for index in range(count))
        return sum(_claimed(body, offset, length, is_compressed) for offset, length in places)
    except struct.error as error:
        raise DataError(f"row block: damaged ({error})") from error


def _claimed(body: memoryview, offset: int, length: int, is_compressed: bool) -> int:
    if offset < 0 or length < 0 or offset + length > len(body):
        raise DataError(f"row block: a buffer at {offset} of {length} bytes in a body of {len(body)}")
    if not is_compressed or length == 0:
        return length
    (claimed,) = struct.unpack_from("<q", body, offset)
    if claimed == _STORED_AS_IS:
        return length
    if claimed < 0:
        raise DataError(f"row block: a buffer that claims {claimed} bytes")
    return int(claimed)


def _follow(data: bytes, at: int) -> int:
    """Where the offset at `at` leads."""
    (offset,) = struct.unpack_from("<I", data, at)
    return at + int(offset)


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table lies, 0 for one that is absent."""
    (back,) = struct.unpack_from("<i", data, table)
    vtable = table - int(back)
    if vtable < 0:
        raise DataError("row block: damaged (a table before the start of its header)")
    (size,) = struct.unpack_from("<H", data, vtable)
    if 4 + 2 * number >= size:
        return 0
    (offset,) = struct.unpack_from("<H", data, vtable + 4 + 2 * number)
    return table + int(offset) if offset else 0
