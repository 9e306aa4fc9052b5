"""Pruning of recovery checkpoints (`keep_recovery`), beside training, after each save.

A recovery checkpoint goes when it is none of: the newest `keep` of its policy, the row a start would go on from, something a kept
row names, or one whose version rollouts may still sample. The service deletes; what it no longer has counts as gone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from platoon.artifacts.row_log import append_json_line
from platoon.errors import ServiceError
from platoon.train.checkpoints.dispatch_files import KEY
from platoon.train.checkpoints.rows import DELETED_FILE, checkpoint_rows, deleted_paths
from platoon.train.policy.policy import Policy
from platoon.train.policy.spec import MAIN
from platoon.train.policy.waits import status_of

EXIT_WAIT_S = 30.0
FAILURES_THAT_STOP = 3
UNSUPPORTED = frozenset({405, 501})


class PrunedRun(Protocol):
    """What pruning reads of a run."""

    console: Any

    @property
    def trained(self) -> list[Policy]: ...


def prunable(rows: Sequence[Mapping[str, Any]], keep: int, largest_staleness: int | None, version: int) -> list[Mapping[str, Any]]:
    """The main rows that may go, oldest first. largest_staleness: None when nobody samples the policies."""
    recovery = [row for row in rows if str(row["name"]).startswith("recovery-")]
    kept_paths = {row["state_path"] for row in rows if row not in recovery} | {rows[-1]["state_path"]} if rows else set()
    old = recovery[:-keep] if keep else recovery
    oldest_sampled = None if largest_staleness is None else version - largest_staleness
    return [
        row
        for row in old
        if row["state_path"] not in kept_paths and (oldest_sampled is None or int(row.get("policy_version", 0)) < oldest_sampled)
    ]


class Pruner:
    """Deletes in a task of its own; a failure never ends the run."""

    def __init__(self, run_dir: Path, keep: int, largest_staleness: int | None, run: PrunedRun) -> None:
        self._run_dir, self._keep, self._largest, self._run = run_dir, keep, largest_staleness, run
        self._wanted = asyncio.Event()
        self._failures = 0
        self._over = False
        self._task = asyncio.create_task(self._prune())

    def saved(self) -> None:
        """A full save was committed."""
        self._wanted.set()

    async def close(self) -> None:
        """Gives what may be deleted now a little time, then ends."""
        self._over = True
        self._wanted.set()
        await asyncio.wait({self._task}, timeout=EXIT_WAIT_S)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _prune(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            for row in await asyncio.to_thread(self._candidates):
                if not await self._delete(row):
                    return
            if self._over:
                return

    def _candidates(self) -> list[Mapping[str, Any]]:
        gone = deleted_paths(self._run_dir)
        version = self._run.trained[0].version
        found = prunable(checkpoint_rows(self._run_dir), self._keep, self._largest, version)
        return [row for row in found if row["sampler_path"] not in gone]

    async def _delete(self, row: Mapping[str, Any]) -> bool:
        """Deletes what one row names, state first. False when pruning stops for good."""
        entries: Mapping[str, Mapping[str, Any]] = {MAIN: row, **row.get("policies", {})}
        for policy in self._run.trained:
            for key in ("state_path", "sampler_path"):
                path = entries.get(policy.id, {}).get(key)
                if path is not None and not await self._delete_path(policy, str(path), row):
                    return False
        # A row without its state is no start point: what only it names goes too.
        if (record := row.get(KEY)) is not None:
            (self._run_dir / str(record["file"])).unlink(missing_ok=True)
        return True

    async def _delete_path(self, policy: Policy, path: str, row: Mapping[str, Any]) -> bool:
        try:
            result = "deleted" if await policy.delete_weights(path) else "absent"
        except ServiceError as error:
            return self._failed(path, error, status_of(error.__cause__) if error.__cause__ else None)
        entry = {"path": path, "name": row["name"], "policy_version": row.get("policy_version"), "result": result}
        await asyncio.to_thread(append_json_line, self._run_dir / DELETED_FILE, {**entry, "time": time.time()})
        return True

    def _failed(self, path: str, error: ServiceError, status: int | None) -> bool:
        self._failures += 1
        stops = status in UNSUPPORTED or self._failures >= FAILURES_THAT_STOP
        self._run.console.say(f"pruning: {path} was not deleted: {error}" + ("; pruning stops" if stops else ""))
        return not stops
