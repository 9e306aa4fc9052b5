"""The file of one checkpoint: a valid safetensors file, whose header says what it is.

An 8-byte little-endian header length, a JSON header, then the flat float32 vectors (parameters, and for training checkpoints both
moments). What describes the checkpoint is in the header's `__metadata__.platoon`. Nothing of a header is believed unjudged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from platoon.artifacts.digests import sha256_bytes
from platoon.artifacts.reading import parse_json
from platoon.local.shapes import ModelShape

Array = npt.NDArray[np.float32]

FORMAT_VERSION = 1
# The end of the year 9999, the last one that dates can be written of.
MOST_MOMENT = 253402300800.0
LENGTH_BYTES = 8
MOST_HEADER_BYTES = 16 << 20

Moment = Annotated[float, Field(ge=0, lt=MOST_MOMENT, allow_inf_nan=False)]


class DamagedFile(Exception):
    """A file that is no whole checkpoint; the message says why. expires_at: where its header still says so."""

    def __init__(self, reason: str, expires_at: float | None = None) -> None:
        self.expires_at = expires_at
        super().__init__(reason)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, protected_namespaces=())


class About(_Strict):
    """What the header says of a checkpoint. Times are seconds since the epoch; digests are `sha256:<hex>` of the vectors' bytes.

    moments_digest: of both moments together; None without moments, or of a file from before they had one.
    """

    base_model: str
    rank: int
    train_groups: list[str]
    run_metadata: dict[str, str]
    user_metadata: dict[str, str]
    created_at: Moment
    expires_at: Moment | None
    steps: Annotated[int, Field(ge=0, lt=2**63)]
    digest: str
    moments_digest: str | None = None


class _Tensor(_Strict):
    data_offsets: Annotated[list[Annotated[int, Field(ge=0, lt=2**63)]], Field(min_length=2, max_length=2)]


def write(stream: IO[bytes], shape: ModelShape, vectors: Mapping[str, Array], about: About) -> None:
    """vectors: by name, `parameters` first; float32 (parameter_count,) each."""
    header = _header(shape, list(vectors), about)
    stream.write(len(header).to_bytes(LENGTH_BYTES, "little"))
    stream.write(header)
    for vector in vectors.values():
        stream.write(np.ascontiguousarray(vector, dtype="<f4").data)


def read_about(file: Path) -> tuple[About, int]:
    """What the header says, and the size of the file in bytes. Raises DamagedFile, and OSError for a file that cannot be read."""
    with file.open("rb") as stream:
        header_bytes = int.from_bytes(stream.read(LENGTH_BYTES), "little")
        text = stream.read(min(header_bytes, MOST_HEADER_BYTES))
        size_bytes = stream.seek(0, 2)
    try:
        header = parse_json(text)
        about = About.model_validate(parse_json(header["__metadata__"]["platoon"]))
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile("its header is not that of a checkpoint") from error
    try:
        tensors = [_Tensor.model_validate(entry) for name, entry in header.items() if name != "__metadata__"]
    except ValidationError as error:
        raise DamagedFile("its header tells of no tensors", about.expires_at) from error
    whole_bytes = LENGTH_BYTES + header_bytes + max((tensor.data_offsets[1] for tensor in tensors), default=0)
    if size_bytes != whole_bytes:
        raise DamagedFile(f"it has {size_bytes} bytes, its header says {whole_bytes}", about.expires_at)
    return about, size_bytes


def read_vectors(file: Path) -> Array:
    """Everything after the header. Raises OSError."""
    with file.open("rb") as stream:
        header_bytes = int.from_bytes(stream.read(LENGTH_BYTES), "little")
        stream.seek(LENGTH_BYTES + header_bytes)
        values: Array = np.fromfile(stream, dtype="<f4")
    return values


def vectors_digest(vectors: Sequence[Array]) -> str:
    """Of the vectors' bytes in their order."""
    return sha256_bytes(*(np.ascontiguousarray(vector, dtype="<f4").data for vector in vectors))


def _header(shape: ModelShape, vectors: Sequence[str], about: About) -> bytes:
    """The safetensors header, filled up with blanks to a multiple of 8 bytes."""
    told = json.dumps({"version": FORMAT_VERSION, **about.model_dump()}, ensure_ascii=False)
    entries: dict[str, Any] = {"__metadata__": {"format": "pt", "platoon": told}}
    for number, vector in enumerate(vectors):
        start = 4 * number * shape.parameter_count
        for piece in shape.slices:
            begin = start + 4 * piece.offset
            name = piece.name if vector == "parameters" else f"{vector}.{piece.name}"
            entries[name] = {"dtype": "F32", "shape": list(piece.shape), "data_offsets": [begin, begin + 4 * piece.size]}
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)
