"""Durable checkpoints: one immutable file each, below one directory that any number of servers share.

`<root>/<run id>/<weights|sampler_weights>/<name>.safetensors`. A file is a valid safetensors file: an 8-byte little-endian
header length, a JSON header, then the flat float32 vectors (parameters, and for training checkpoints both moments). What
describes the checkpoint rides in the header's `__metadata__.platoon`. Files appear whole or not at all, so the directory itself
is the index: a server finds what another one, or an earlier one, wrote. A changed expiry lies beside as `<name>.expires`.

A file shorter or longer than its header says counts as not there, so that whoever resumes passes over it at once; damage inside is
found by digest when the file is loaded.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from platoon.artifacts.publish import fsync_directory, publish_json, replacing
from platoon.local.refusals import NotFound, Refusal
from platoon.local.shapes import ModelShape

Array = npt.NDArray[np.float32]

KINDS = {"weights": "training", "sampler_weights": "sampler"}
FORMAT_VERSION = 1
STALE_PARTIAL_S = 3600.0
# The end of the year 9999, the last one that dates can be written of.
MOST_MOMENT = 253402300800.0
_LENGTH_BYTES = 8
_MOST_HEADER_BYTES = 16 << 20
_RUN_ID = re.compile(r"[0-9A-Za-z_-]{1,64}:train:[0-9]{1,9}")


@dataclass(frozen=True)
class CheckpointId:
    """What a `tinker://` path names."""

    run_id: str
    kind: str
    name: str

    @property
    def path(self) -> str:
        return f"tinker://{self.run_id}/{self.kind}/{self.name}"

    @property
    def checkpoint_id(self) -> str:
        return f"{self.kind}/{self.name}"

    @classmethod
    def parse(cls, path: str) -> CheckpointId:
        """Raises Refusal for what is no path of a checkpoint."""
        parts = path.removeprefix("tinker://").split("/")
        if not path.startswith("tinker://") or len(parts) != 3:
            raise Refusal(f"not a checkpoint path: {path!r} (expected tinker://RUN/{{weights,sampler_weights}}/NAME)")
        return cls.of(*parts)

    @classmethod
    def of(cls, run_id: str, kind: str, name: str) -> CheckpointId:
        """Raises Refusal when a part cannot be one, so that no id leads out of the store."""
        if kind not in KINDS:
            raise Refusal(f"unknown checkpoint kind {kind!r} (served: {', '.join(KINDS)})")
        check_run_id(run_id)
        check_name(name)
        return cls(run_id, kind, name)


def check_run_id(run_id: str) -> None:
    if not _RUN_ID.fullmatch(run_id):
        raise NotFound(f"no training run {run_id!r}")


def check_name(name: str) -> None:
    """Refuses names that are no plain file name."""
    if not name or name.startswith(".") or "/" in name or not name.isprintable() or len(name.encode()) > 180:
        raise Refusal(f"not a checkpoint name: {name!r} (printable, no '/', not begun with '.', at most 180 bytes)")


@dataclass(frozen=True)
class Contents:
    """What a checkpoint holds: parameters, and for a training one both moments and the number of optimizer steps."""

    parameters: Array
    first: Array | None = None
    second: Array | None = None
    steps: int = 0


@dataclass(frozen=True)
class Description:
    """What the header says of the training run a checkpoint was made by."""

    base_model: str
    rank: int
    train_groups: tuple[str, ...]
    run_metadata: Mapping[str, str]
    user_metadata: Mapping[str, str]


@dataclass(frozen=True)
class CheckpointInfo:
    """A checkpoint as listed. Times are seconds since the epoch; digest is `sha256:<hex>` of the parameters' bytes.

    moments_digest: of both moments together; None without moments, or of a file from before they had one.
    """

    id: CheckpointId
    description: Description
    created_at: float
    expires_at: float | None
    size_bytes: int
    steps: int
    digest: str
    moments_digest: str | None = None


class CheckpointStore:
    """The checkpoints below one directory."""

    def __init__(self, root: Path, now: Callable[[], float] = time.time) -> None:
        self._root = root
        self._now = now
        self._reported: set[Path] = set()

    def save(
        self,
        checkpoint: CheckpointId,
        shape: ModelShape,
        contents: Contents,
        description: Description,
        *,
        ttl_s: float | None = None,
        overwrite: bool = False,
    ) -> CheckpointInfo:
        """Writes one checkpoint; durable when this returns.

        Raises Refusal when the name is taken, OSError when the disk does not take it.
        """
        file = self._file(checkpoint)
        if file.exists() and not overwrite:
            raise Refusal(f"{checkpoint.path} exists (save under another name, or with overwrite=True)", status=409)
        now = self._now()
        vectors = {"parameters": contents.parameters}
        if contents.first is not None and contents.second is not None:
            vectors |= {"first_moment": contents.first, "second_moment": contents.second}
        meta = {
            "version": FORMAT_VERSION,
            "base_model": description.base_model,
            "rank": description.rank,
            "train_groups": list(description.train_groups),
            "run_metadata": dict(description.run_metadata),
            "user_metadata": dict(description.user_metadata),
            "created_at": now,
            "expires_at": None if ttl_s is None else now + ttl_s,
            "steps": contents.steps,
            "digest": _digest(contents.parameters),
            "moments_digest": _digest(*list(vectors.values())[1:]) if len(vectors) > 1 else None,
        }
        header = _header(shape, list(vectors), meta)
        with replacing(file) as stream:
            stream.write(len(header).to_bytes(_LENGTH_BYTES, "little"))
            stream.write(header)
            for vector in vectors.values():
                stream.write(np.ascontiguousarray(vector, dtype="<f4").data)
        self._expiry_file(checkpoint).unlink(missing_ok=True)
        return self.info(checkpoint)

    def info(self, checkpoint: CheckpointId) -> CheckpointInfo:
        """Raises NotFound when there is none, or it has expired."""
        found = self._read_info(checkpoint)
        if found is None and self._file(checkpoint).exists():
            raise NotFound(f"no checkpoint {checkpoint.path}: its file is damaged (cut off, or not a checkpoint)")
        if found is None or _expired(found, self._now()):
            raise NotFound(f"no checkpoint {checkpoint.path}")
        return found

    def load(self, checkpoint: CheckpointId, shape: ModelShape) -> Contents:
        """Reads a checkpoint whole. Raises NotFound, or another Refusal when the file is damaged."""
        info = self.info(checkpoint)
        count = shape.parameter_count
        try:
            with self._file(checkpoint).open("rb") as stream:
                header_size = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
                stream.seek(_LENGTH_BYTES + header_size)
                values = np.fromfile(stream, dtype="<f4")
        except FileNotFoundError:
            raise NotFound(f"no checkpoint {checkpoint.path}") from None
        if values.size not in {count, 3 * count} or _digest(values[:count]) != info.digest:
            raise Refusal(f"{checkpoint.path}: the file is damaged, or of another model shape than {info.description.base_model}")
        if values.size == count:
            return Contents(values, steps=info.steps)
        pieces = values[:count], values[count : 2 * count], values[2 * count :]
        torn = info.moments_digest is not None and _digest(*pieces[1:]) != info.moments_digest
        if torn or not np.isfinite(values[count:]).all():
            raise Refusal(f"{checkpoint.path}: the file is damaged in its optimizer moments")
        return Contents(*pieces, steps=info.steps)

    def of_run(self, run_id: str) -> list[CheckpointInfo]:
        """The run's live checkpoints, oldest first."""
        check_run_id(run_id)
        now = self._now()
        infos = (self._read_info(checkpoint) for checkpoint in self._ids(run_id))
        return sorted((i for i in infos if i and not _expired(i, now)), key=lambda i: (i.created_at, i.id.path))

    def runs(self) -> list[str]:
        """Ids of all runs that have a directory, whether or not a checkpoint is left in it."""
        if not self._root.is_dir():
            return []
        return sorted(entry.name for entry in self._root.iterdir() if _RUN_ID.fullmatch(entry.name))

    def delete(self, checkpoint: CheckpointId) -> None:
        """Raises NotFound when there is none."""
        self.info(checkpoint)
        self._remove(checkpoint)

    def set_ttl(self, checkpoint: CheckpointId, ttl_s: float | None) -> None:
        """Replaces the expiry by `ttl_s` from now; None never expires."""
        self.info(checkpoint)
        publish_json(self._expiry_file(checkpoint), {"expires_at": None if ttl_s is None else self._now() + ttl_s})

    def reap(self) -> list[CheckpointId]:
        """Deletes what has expired and what writers that died left half-written; returns the expired ids."""
        now = self._now()
        gone = []
        for run_id in self.runs():
            for checkpoint in self._ids(run_id):
                info = self._read_info(checkpoint)
                if info is not None and _expired(info, now):
                    self._remove(checkpoint)
                    gone.append(checkpoint)
            for partial in (self._root / run_id).glob("*/.*.partial"):
                with suppress(OSError):
                    if now - partial.stat().st_mtime > STALE_PARTIAL_S:
                        partial.unlink()
        return gone

    def _remove(self, checkpoint: CheckpointId) -> None:
        file = self._file(checkpoint)
        file.unlink(missing_ok=True)
        self._expiry_file(checkpoint).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            fsync_directory(file.parent)

    def _ids(self, run_id: str) -> Iterator[CheckpointId]:
        for kind in KINDS:
            for file in sorted((self._root / run_id / kind).glob("*.safetensors")):
                if not file.name.startswith("."):
                    yield CheckpointId(run_id, kind, file.name.removesuffix(".safetensors"))

    def _file(self, checkpoint: CheckpointId) -> Path:
        return self._root / checkpoint.run_id / checkpoint.kind / f"{checkpoint.name}.safetensors"

    def _expiry_file(self, checkpoint: CheckpointId) -> Path:
        return self._root / checkpoint.run_id / checkpoint.kind / f"{checkpoint.name}.expires"

    def _read_info(self, checkpoint: CheckpointId) -> CheckpointInfo | None:
        """None when there is no such file, it is none of ours, or its size is not what its header says."""
        try:
            with self._file(checkpoint).open("rb") as stream:
                size = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
                header = json.loads(stream.read(min(size, _MOST_HEADER_BYTES)))
                size_bytes = stream.seek(0, 2)
            meta: dict[str, Any] = json.loads(header["__metadata__"]["platoon"])
            if size_bytes != _LENGTH_BYTES + size + _data_size(header):
                return None
            return CheckpointInfo(
                id=checkpoint,
                description=Description(
                    meta["base_model"], meta["rank"], tuple(meta["train_groups"]), meta["run_metadata"], meta["user_metadata"]
                ),
                created_at=_moment(meta["created_at"]),
                expires_at=self._expiry(checkpoint, None if meta["expires_at"] is None else _moment(meta["expires_at"])),
                size_bytes=size_bytes,
                steps=meta["steps"],
                digest=meta["digest"],
                moments_digest=meta.get("moments_digest"),
            )
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _expiry(self, checkpoint: CheckpointId, saved: float | None) -> float | None:
        """The changed expiry, else the saved one. A file that says none is told once and ignored: what it was set to is lost."""
        file = self._expiry_file(checkpoint)
        try:
            changed = json.loads(file.read_bytes())["expires_at"]
            return None if changed is None else _moment(changed)
        except FileNotFoundError:
            return saved
        except (OSError, ValueError, KeyError, TypeError) as error:
            if file not in self._reported:
                self._reported.add(file)
                sys.stderr.write(
                    f"local service: {file} says no expiry, so the checkpoint is kept: {type(error).__name__}: {error}\n"
                )
            return None


def _moment(value: Any) -> float:
    """Seconds since the epoch that a calendar has. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MOST_MOMENT or math.isnan(value):
        raise ValueError(f"not a time in seconds: {str(value)[:40]!r}")
    return float(value)


def _data_size(header: Mapping[str, Any]) -> int:
    """Bytes of vectors that a safetensors header tells of."""
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    return max((int(end) for end in ends), default=0)


def _expired(info: CheckpointInfo, now: float) -> bool:
    return info.expires_at is not None and info.expires_at <= now


def _digest(*vectors: Array) -> str:
    """Of the vectors' bytes in their order."""
    digest = hashlib.sha256()
    for vector in vectors:
        digest.update(np.ascontiguousarray(vector, dtype="<f4").data)
    return f"sha256:{digest.hexdigest()}"


def _header(shape: ModelShape, vectors: list[str], meta: Mapping[str, Any]) -> bytes:
    """The safetensors header, filled up with blanks to a multiple of 8 bytes."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt", "platoon": json.dumps(meta, ensure_ascii=False)}}
    for number, vector in enumerate(vectors):
        start = 4 * number * shape.parameter_count
        for piece in shape.slices:
            begin = start + 4 * piece.offset
            name = piece.name if vector == "parameters" else f"{vector}.{piece.name}"
            entries[name] = {"dtype": "F32", "shape": list(piece.shape), "data_offsets": [begin, begin + 4 * piece.size]}
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)
