"""Settled groups on disk, each stored once under the digest of its content.

`<directory>/<hex>.json` is the group: canonical JSON of its judgements, its values per row (base64 of little-endian float64) and
the digest of its rows, which makes the file's own digest that of the whole group. `<directory>/<hex>.arrow` beside it holds the
rows (`rows.codec`). They are written first and deleted last, so a JSON never lacks them. Nothing here knows what judgements mean.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from platoon.artifacts.canonical import canonical_bytes
from platoon.artifacts.digests import sha256_bytes
from platoon.artifacts.publish import publish_bytes
from platoon.artifacts.reading import parse_json, read_regular
from platoon.artifacts.store import key_of
from platoon.errors import PlatoonError
from platoon.rows import codec
from platoon.rows.block import DataError, RowBlock
from platoon.train.checkpoints.dispatch_state import LostState, refuse_format

FORMAT = 2
HEAD = ".json"
ROWS = ".arrow"
# What says that a file is not there; any other failure to read it may pass.
GONE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


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
        values = None
        if group.values_R is not None:
            values = base64.b64encode(np.ascontiguousarray(group.values_R, dtype="<f8").tobytes()).decode()
        rows = None if group.block is None else group.block.digest()
        head = canonical_bytes({"format": FORMAT, "head": dict(group.head), "rows": rows, "values": values})
        digest = sha256_bytes(head)
        if not self._path(digest, HEAD).exists():
            if group.block is not None:
                publish_bytes(self._path(digest, ROWS), codec.encode(group.block))
            publish_bytes(self._path(digest, HEAD), head)
        return digest

    def load(self, digest: str) -> StoredGroup:
        """The group of a digest.

        Raises LostState when it is missing or damaged, PlatoonError for a read that failed, ConfigError for another version's.
        """
        path = self._path(digest, HEAD)
        data = read_named(path)
        if sha256_bytes(data) != digest:
            raise LostState(f"{path}: damaged, its content has another digest than its name")
        try:
            value = parse_json(data)
            if value["format"] != FORMAT:
                raise refuse_format(value["format"], str(path))
            block = None if value["rows"] is None else self._rows(digest, value["rows"])
            values_R = None
            if value["values"] is not None:
                values_R = np.frombuffer(base64.b64decode(value["values"]), dtype="<f8").astype(np.float64)
            return StoredGroup(value["head"], block, values_R)
        except (KeyError, TypeError, ValueError) as error:
            raise LostState(f"{path}: not a group: {type(error).__name__}: {error}") from error

    def discard(self, digest: str) -> None:
        """Deletes a group that no checkpoint names; one that is gone is fine."""
        for suffix in (HEAD, ROWS):
            self._path(digest, suffix).unlink(missing_ok=True)

    def prune(self, keep: Iterable[str]) -> int:
        """Deletes every group but those of `keep`, and what interrupted writes left. Returns the number of files deleted.

        keep: digests that any readable checkpoint names, and those of groups outstanding now.
        """
        wanted = {key_of(digest) for digest in keep}
        files = list(self.directory.iterdir()) if self.directory.is_dir() else []
        gone = [path for path in files if path.name.removesuffix(path.suffix) not in wanted]
        for path in gone:
            path.unlink(missing_ok=True)
        return len(gone)

    def _path(self, digest: str, suffix: str) -> Path:
        return self.directory / f"{key_of(digest)}{suffix}"

    def _rows(self, digest: str, rows: str) -> RowBlock:
        path = self._path(digest, ROWS)
        try:
            block = codec.decode(read_named(path))
        except DataError as error:
            raise LostState(f"{path}: {error}") from error
        if block.digest() != rows:
            raise LostState(f"{path}: holds other rows than its group has")
        return block


def read_named(path: Path) -> bytes:
    """A file that a checkpoint names. Raises LostState when it is not there, PlatoonError for a read that failed."""
    try:
        return read_regular(path, None)
    except GONE as error:
        raise LostState(f"{path}: a checkpoint names this file, and it is not there: {error.strerror}") from error
    except OSError as error:
        advice = "the same command goes on once it can be"
        raise PlatoonError(f"{path}: a checkpoint names this file, and it cannot be read: {error.strerror} ({advice})") from error
