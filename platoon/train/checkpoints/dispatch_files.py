"""The draws' part of a checkpoint: one file beside the row, named by it with its digest.

`tasks/dispatch-s<start>-<name>.json` holds what the source captured; the stored groups that it names lie in `tasks/groups/`. A file
is never changed once it is written, so the rows before keep theirs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from platoon.artifacts.publish import publish_json
from platoon.errors import PlatoonError
from platoon.train.checkpoints.dispatch_state import FORMAT, kept_digests
from platoon.train.checkpoints.participants import StateWriter

KEY = "dispatch"
TASKS_DIR = "tasks"


class Capturing(Protocol):
    """The part of a rollout source that a checkpoint asks."""

    def capture(self) -> dict[str, Any]: ...


class DispatchParticipant:
    """Writes and reads the key `dispatch`. source: set once the trainer has made it, before the first save."""

    name = "dispatch"
    keys: Sequence[str] = (KEY,)

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self.source: Capturing | None = None
        self.start = 1
        self.found: Mapping[str, Any] | None = None

    def capture(self) -> StateWriter:
        assert self.source is not None
        state, start = self.source.capture(), self.start

        def write(name: str) -> Mapping[str, Any]:
            file = f"{TASKS_DIR}/dispatch-s{start}-{name}.json"
            data = publish_json(self._run_dir / file, state)
            digest = hashlib.sha256(data).hexdigest()
            return {KEY: {"file": file, "sha256": digest, "format": FORMAT, "start": start}}

        return write

    def restore(self, row: Mapping[str, Any]) -> None:
        """Reads the state that a row names. Raises PlatoonError when it is missing or damaged."""
        record = row.get(KEY)
        self.found = read_state(self._run_dir, record) if record is not None else None


def read_state(run_dir: Path, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state that a row's record names. Raises PlatoonError when it is missing or damaged."""
    path = run_dir / str(record["file"])
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PlatoonError(f"{path}: a checkpoint names this file, and it cannot be read: {error}") from error
    if hashlib.sha256(data).hexdigest() != record["sha256"]:
        raise PlatoonError(f"{path}: damaged, its content has another digest than its checkpoint says")
    state: Mapping[str, Any] = json.loads(data)
    return state


def named_groups(run_dir: Path, rows: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Digests of every stored group that some row's state refers to; states that cannot be read refer to nothing."""
    found: set[str] = set()
    for row in rows:
        if KEY in row:
            with suppress(PlatoonError):
                found |= kept_digests(read_state(run_dir, row[KEY]))
    return frozenset(found)
