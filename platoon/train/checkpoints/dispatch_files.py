"""The draws' part of a checkpoint: one file beside the row, named by it with its digest.

`tasks/dispatch-s<start>-<name>.json` holds what the source captured; the stored groups that it names lie in `tasks/groups/`. A file
is never changed once it is written, so the rows before keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from platoon.artifacts.digests import hex_of, sha256_bytes
from platoon.artifacts.publish import publish_json
from platoon.artifacts.reading import parse_json
from platoon.train.checkpoints.dispatch_state import FORMAT, DispatchState, LostState, kept_digests
from platoon.train.checkpoints.kept_groups import GroupStore, read_named
from platoon.train.checkpoints.participants import StateWriter

KEY = "dispatch"
TASKS_DIR = "tasks"
GROUPS_DIR = Path(TASKS_DIR) / "groups"


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
            digest = hex_of(sha256_bytes(data))
            return {KEY: {"file": file, "sha256": digest, "format": FORMAT, "start": start}}

        return write

    def lacks(self, row: Mapping[str, Any]) -> str | None:
        """Reads everything that a row's draws need. Raises PlatoonError for what cannot be read now."""
        if row.get(KEY) is None:
            return "it names no draws"
        try:
            store = GroupStore(self._run_dir / GROUPS_DIR)
            for digest in DispatchState.from_dict(read_state(self._run_dir, row[KEY])).digests:
                store.load(digest)
        except LostState as error:
            return str(error)
        return None

    def restore(self, row: Mapping[str, Any]) -> None:
        """Reads the state that a row names. Raises PlatoonError when it cannot be read."""
        self.found = read_state(self._run_dir, row[KEY])


def read_state(run_dir: Path, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state that a row's record names. Raises LostState when it is missing or damaged, PlatoonError for a read that failed."""
    path = run_dir / record["file"]
    data = read_named(path)
    if hex_of(sha256_bytes(data)) != record["sha256"]:
        raise LostState(f"{path}: damaged, its content has another digest than its checkpoint says")
    try:
        state: Mapping[str, Any] = parse_json(data)
    except ValueError as error:
        raise LostState(f"{path}: not a dispatch state: {error}") from error
    return state


def named_groups(run_dir: Path, rows: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Digests of every stored group that some row's state refers to; states that are lost refer to nothing."""
    found: set[str] = set()
    for row in rows:
        if row.get(KEY) is not None:
            with suppress(LostState):
                found |= kept_digests(read_state(run_dir, row[KEY]))
    return frozenset(found)
