"""Settled groups on disk, each stored once under the digest of its content.

`<directory>/<hex>.json` is the group: canonical JSON of its judgements, its values per row (base64 of little-endian float64) and
the digest of its rows. `<directory>/<hex of the rows' digest>.arrow` holds the rows (`rows.codec`, which checks that digest).
The rows are written first, so a group's JSON never names rows that are not there. Equal groups are one file. Nothing here knows
what the judgements mean.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from platoon.artifacts.canonical import canonical_bytes
from platoon.artifacts.publish import publish_bytes
from platoon.artifacts.store import key_of
from platoon.errors import PlatoonError
from platoon.rows import codec
from platoon.rows.block import DataError, RowBlock

FORMAT = 2


@dataclass(frozen=True)
class StoredGroup:
    """head: what the workflow wrote of the group, as JSON values."""

    head: Mapping[str, Any]
    block: RowBlock | None
    values_R: npt.NDArray[np.float64] | None


@dataclass(frozen=True)
class GroupStore:
    """The directory `<run dir>/tasks/groups`."""

    directory: Path

    def save(self, group: StoredGroup) -> str:
        """Stores a group durably and returns its `sha256:<hex>`. Blocks for the disk; raises OSError when it cannot write."""
        rows = None
        if group.block is not None:
            rows = group.block.digest()
            if not (path := self._path(rows, ".arrow")).exists():
                publish_bytes(path, codec.encode(group.block))
        values = None
        if group.values_R is not None:
            values = base64.b64encode(np.ascontiguousarray(group.values_R, dtype="<f8").tobytes()).decode()
        head = canonical_bytes({"format": FORMAT, "head": dict(group.head), "rows": rows, "values": values})
        digest = _digest(head)
        if not (path := self._path(digest, ".json")).exists():
            publish_bytes(path, head)
        return digest

    def load(self, digest: str) -> StoredGroup:
        """The group of a digest. Raises PlatoonError when it is missing, damaged or of another format."""
        data = self._read(digest, ".json")
        if _digest(data) != digest:
            raise PlatoonError(f"{self._path(digest, '.json')}: damaged, its content has another digest than its name")
        value = json.loads(data)
        if value.get("format") != FORMAT:
            raise PlatoonError(f"{self._path(digest, '.json')}: format {value.get('format')} cannot be read by this version")
        block = None if value["rows"] is None else self._rows(value["rows"])
        values_R = None
        if value["values"] is not None:
            values_R = np.frombuffer(base64.b64decode(value["values"]), dtype="<f8").astype(np.float64)
        return StoredGroup(value["head"], block, values_R)

    def prune(self, keep: Iterable[str]) -> int:
        """Deletes every group but those of `keep`, and rows no kept group names. Returns the number of files deleted.

        keep: digests that any readable checkpoint names, and those of groups outstanding now.
        """
        if not self.directory.is_dir():
            return 0
        wanted = {self._path(digest, ".json").name for digest in keep}
        for name in tuple(wanted):
            path = self.directory / name
            if path.exists() and (rows := json.loads(path.read_bytes())["rows"]) is not None:
                wanted.add(self._path(rows, ".arrow").name)
        gone = [path for path in self.directory.iterdir() if path.suffix in (".json", ".arrow") and path.name not in wanted]
        for path in gone:
            path.unlink(missing_ok=True)
        return len(gone)

    def _path(self, digest: str, suffix: str) -> Path:
        return self.directory / f"{key_of(digest)}{suffix}"

    def _rows(self, digest: str) -> RowBlock:
        path = self._path(digest, ".arrow")
        try:
            block = codec.decode(self._read(digest, ".arrow"))
        except DataError as error:
            raise PlatoonError(f"{path}: {error}") from error
        if block.digest() != digest:
            raise PlatoonError(f"{path}: damaged, its rows have another digest than its name")
        return block

    def _read(self, digest: str, suffix: str) -> bytes:
        path = self._path(digest, suffix)
        try:
            return path.read_bytes()
        except OSError as error:
            raise PlatoonError(f"{path}: a checkpoint names this group, and it cannot be read: {error}") from error


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
