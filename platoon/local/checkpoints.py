"""Durable checkpoints: one immutable file each, below one directory that any number of servers share.

`<root>/<run id>/<weights|sampler_weights>/<name>.safetensors` (`checkpoint_file`). Files appear whole or not at all, so the
directory itself is the index: a server finds what another one, or an earlier one, wrote. A changed expiry lies beside as
`<name>.expires`.

A file shorter or longer than its header says counts as not there, so that whoever resumes passes over it at once; damage inside is
found by digest when the file is loaded. Damaged files are listed apart and can be deleted like any other.
"""

from __future__ import annotations

import fcntl
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from platoon.artifacts.publish import fsync_directory, publish_json, replacing
from platoon.artifacts.reading import parse_json, read_regular
from platoon.host.trees import remove_tree
from platoon.local.checkpoint_file import (
    MOST_MOMENT,
    About,
    Array,
    DamagedFile,
    read_about,
    read_vectors,
    vectors_digest,
    write,
)
from platoon.local.refusals import NotFound, Refusal
from platoon.local.shapes import ModelShape

KINDS = {"weights": "training", "sampler_weights": "sampler"}
# A file may be younger than its writer's lock, and on a few file systems there are no locks.
YOUNG_PARTIAL_S = 2.0
STALE_PARTIAL_S = 3600.0
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


@dataclass(frozen=True)
class DamagedCheckpoint:
    """A file in a checkpoint's place that is none, as listed. modified_at: seconds since the epoch. expires_at: None unknown."""

    id: CheckpointId
    reason: str
    modified_at: float
    expires_at: float | None
    size_bytes: int


class CheckpointStore:
    """The checkpoints below one directory."""

    def __init__(self, root: Path, now: Callable[[], float] = time.time) -> None:
        self.root = root
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
        about = About(
            base_model=description.base_model,
            rank=description.rank,
            train_groups=list(description.train_groups),
            run_metadata=dict(description.run_metadata),
            user_metadata=dict(description.user_metadata),
            created_at=now,
            expires_at=None if ttl_s is None else now + ttl_s,
            steps=contents.steps,
            digest=vectors_digest([contents.parameters]),
            moments_digest=vectors_digest(list(vectors.values())[1:]) if len(vectors) > 1 else None,
        )
        with replacing(file) as stream:
            _hold(stream)
            write(stream, shape, vectors, about)
        self._expiry_file(checkpoint).unlink(missing_ok=True)
        return self.info(checkpoint)

    def info(self, checkpoint: CheckpointId) -> CheckpointInfo:
        """Raises NotFound when there is none, or it has expired."""
        try:
            found = self._read_info(checkpoint)
        except DamagedFile as error:
            raise NotFound(f"no checkpoint {checkpoint.path}: its file is damaged: {error}") from error
        if found is None or _expired(found, self._now()):
            raise NotFound(f"no checkpoint {checkpoint.path}")
        return found

    def load(self, checkpoint: CheckpointId, shape: ModelShape) -> Contents:
        """Reads a checkpoint whole. Raises NotFound, or another Refusal when the file is damaged."""
        info = self.info(checkpoint)
        count = shape.parameter_count
        try:
            values = read_vectors(self._file(checkpoint))
        except FileNotFoundError:
            raise NotFound(f"no checkpoint {checkpoint.path}") from None
        if values.size not in {count, 3 * count} or vectors_digest([values[:count]]) != info.digest:
            raise Refusal(f"{checkpoint.path}: the file is damaged, or of another model shape than {info.description.base_model}")
        if values.size == count:
            return Contents(values, steps=info.steps)
        pieces = values[:count], values[count : 2 * count], values[2 * count :]
        torn = info.moments_digest is not None and vectors_digest(pieces[1:]) != info.moments_digest
        if torn or not np.isfinite(values[count:]).all():
            raise Refusal(f"{checkpoint.path}: the file is damaged in its optimizer moments")
        return Contents(*pieces, steps=info.steps)

    def of_run(self, run_id: str) -> list[CheckpointInfo]:
        """The run's live checkpoints, oldest first; damaged ones left out."""
        now = self._now()
        infos = (item for item in self._of_run(run_id) if isinstance(item, CheckpointInfo) and not _expired(item, now))
        return sorted(infos, key=lambda info: (info.created_at, info.id.path))

    def damaged_of_run(self, run_id: str) -> list[DamagedCheckpoint]:
        """What lies in the places of the run's checkpoints and is none, by path."""
        return [item for item in self._of_run(run_id) if isinstance(item, DamagedCheckpoint)]

    def runs(self) -> list[str]:
        """Ids of all runs that have a directory, whether or not a checkpoint is left in it."""
        if not self.root.is_dir():
            return []
        return sorted(entry.name for entry in self.root.iterdir() if _RUN_ID.fullmatch(entry.name))

    def delete(self, checkpoint: CheckpointId) -> None:
        """Deletes a checkpoint, whole or damaged. Raises NotFound when there is none, OSError when it stays."""
        if isinstance(self._look(checkpoint), CheckpointInfo):
            self.info(checkpoint)
        self._remove(checkpoint)

    def set_ttl(self, checkpoint: CheckpointId, ttl_s: float | None) -> None:
        """Replaces the expiry by `ttl_s` from now, of a damaged one too; None never expires."""
        if isinstance(self._look(checkpoint), CheckpointInfo):
            self.info(checkpoint)
        publish_json(self._expiry_file(checkpoint), {"expires_at": None if ttl_s is None else self._now() + ttl_s})

    def reap(self) -> list[CheckpointId]:
        """Deletes what has expired and what writers that died left half-written; returns the expired ids.

        A damaged file goes when its expiry is known and over. Else it stays: when it would have expired is lost.
        """
        now = self._now()
        gone = []
        for run_id in self.runs():
            for item in self._of_run(run_id):
                if _expired(item, now):
                    with suppress(OSError):
                        self._remove(item.id)
                        gone.append(item.id)
            for partial in (self.root / run_id).glob("*/.*.partial"):
                with suppress(OSError):
                    if _abandoned(partial, now):
                        partial.unlink()
        return gone

    def _remove(self, checkpoint: CheckpointId) -> None:
        file = self._file(checkpoint)
        remove_tree(file)
        self._expiry_file(checkpoint).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            fsync_directory(file.parent)

    def _of_run(self, run_id: str) -> Iterator[CheckpointInfo | DamagedCheckpoint]:
        """All there is of a run, expired or not, by path; whatever vanishes meanwhile is left out."""
        check_run_id(run_id)
        for kind in KINDS:
            for file in sorted((self.root / run_id / kind).glob("*.safetensors")):
                # What has no name of a checkpoint cannot be asked for.
                with suppress(Refusal):
                    yield self._look(CheckpointId.of(run_id, kind, file.name.removesuffix(".safetensors")))

    def _look(self, checkpoint: CheckpointId) -> CheckpointInfo | DamagedCheckpoint:
        """What lies in a checkpoint's place, expired or not. Raises NotFound when nothing does."""
        expires_at: float | None = None
        try:
            if (found := self._read_info(checkpoint)) is not None:
                return found
            reason = "a link to nothing"
        except DamagedFile as error:
            reason, expires_at = str(error), error.expires_at
        except OSError as error:
            reason = f"it cannot be read: {error.strerror}"
        try:
            status = self._file(checkpoint).lstat()
        except OSError:
            raise NotFound(f"no checkpoint {checkpoint.path}") from None
        modified_at = min(max(status.st_mtime, 0.0), MOST_MOMENT - 1)
        return DamagedCheckpoint(checkpoint, reason, modified_at, self._expiry(checkpoint, expires_at), status.st_size)

    def _file(self, checkpoint: CheckpointId) -> Path:
        return self.root / checkpoint.run_id / checkpoint.kind / f"{checkpoint.name}.safetensors"

    def _expiry_file(self, checkpoint: CheckpointId) -> Path:
        return self.root / checkpoint.run_id / checkpoint.kind / f"{checkpoint.name}.expires"

    def _read_info(self, checkpoint: CheckpointId) -> CheckpointInfo | None:
        """None when there is no such file. Raises DamagedFile when it is no whole checkpoint, OSError when it cannot be read."""
        try:
            about, size_bytes = read_about(self._file(checkpoint))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError as error:
            raise DamagedFile("a directory lies in its place") from error
        return CheckpointInfo(
            id=checkpoint,
            description=Description(
                about.base_model, about.rank, tuple(about.train_groups), about.run_metadata, about.user_metadata
            ),
            created_at=about.created_at,
            expires_at=self._expiry(checkpoint, about.expires_at),
            size_bytes=size_bytes,
            steps=about.steps,
            digest=about.digest,
            moments_digest=about.moments_digest,
        )

    def _expiry(self, checkpoint: CheckpointId, saved: float | None) -> float | None:
        """The changed expiry, else the saved one. A file that says none is told once and ignored: what it was set to is lost."""
        file = self._expiry_file(checkpoint)
        try:
            changed = parse_json(read_regular(file))["expires_at"]
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
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MOST_MOMENT:
        raise ValueError(f"not a time in seconds: {str(value)[:40]!r}")
    return float(value)


def _hold(stream: IO[bytes]) -> None:
    """Says that the writer lives, for as long as the file is open."""
    with suppress(OSError):
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _abandoned(partial: Path, now: float) -> bool:
    """Whether the writer of a half-written file is dead. Raises OSError for a file that vanished."""
    age_s = now - partial.stat().st_mtime
    if age_s <= YOUNG_PARTIAL_S:
        return False
    with partial.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return age_s > STALE_PARTIAL_S
    return True


def _expired(found: CheckpointInfo | DamagedCheckpoint, now: float) -> bool:
    return found.expires_at is not None and found.expires_at <= now
