"""Full saves: capture at one instant, write files, save weights, append the row. The row is the commit point.

Before the row is there, nothing of a save counts: a later start goes on from the row before, and what was written meanwhile is
deleted, at once or by the next start (`unfinished`). Other trained policies are saved before main, each into its own file on its
own service; main's row names them all.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platoon.artifacts.row_log import append_json_line
from platoon.errors import PlatoonError, ServiceError
from platoon.train.checkpoints.participants import Participants, StateWriter
from platoon.train.checkpoints.rows import checkpoint_rows, policy_file
from platoon.train.checkpoints.unfinished import drop_unfinished, name_weights, saved_whole
from platoon.train.policy.policy import Policy, SavedWeights
from platoon.train.policy.spec import MAIN
from platoon.train.policy.waits import together

FINAL = "final"


def kept(run_dir: Path) -> str:
    """What a run has after work that broke off, and what the same command does."""
    if checkpoint_rows(run_dir):
        return "the last whole checkpoint is kept, and the same command goes on from it"
    return "nothing was trained yet; the same command begins again"


def recovery_name(step: int) -> str:
    """Of saves that pruning may delete: the launch's and those of `checkpoint.recovery_every`."""
    return f"recovery-{step:06d}"


def permanent_name(step: int) -> str:
    return f"{step:06d}"


def interrupted_name(step: int) -> str:
    return f"{step:06d}_interrupted"


@dataclass(frozen=True)
class Cadence:
    """When full saves are due, by the step of the run.

    every: permanent saves, in units of `unit_steps` (1 for steps, the steps of a pass for epochs), 0 for none. recovery_every:
    recovery saves on the other steps, in steps.
    """

    every: int = 0
    recovery_every: int | None = None
    unit_steps: float = 1.0

    def name(self, step: int) -> str | None:
        """The full save due after `step` completed steps, None when none is."""
        if self.every:
            period = self.every * self.unit_steps
            if math.floor(step / period) > math.floor((step - 1) / period):
                return permanent_name(step)
        if self.recovery_every and step % self.recovery_every == 0:
            return recovery_name(step)
        return None


@dataclass(frozen=True)
class Counters:
    """Of the run, at one instant. step: steps completed. epoch: passes begun, None where the trainer counts none.

    rows_digest: digest over the rows of every step so far, the identity first. versions: the version under which each trained
    policy's weights are published, which may be about to happen.
    """

    step: int
    start: int
    rows_digest: str
    versions: Mapping[str, int]
    epoch: int | None = None


class Committer:
    """Writes the checkpoints of one start; one save at a time."""

    def __init__(self, run_dir: Path, trained: Sequence[Policy], participants: Participants) -> None:
        self._run_dir, self._participants = run_dir, participants
        self._main = next(policy for policy in trained if policy.id == MAIN)
        self._others = [policy for policy in trained if policy.id != MAIN]
        self._lock = asyncio.Lock()

    async def save(self, name: str, counters: Counters) -> Mapping[str, SavedWeights]:
        """One full save; returns the paths per policy.

        Raises ServiceError, or PlatoonError when the run directory cannot be written; then no row was appended, and the services
        keep nothing of it.
        """
        policies = (*self._others, self._main)
        async with self._lock:
            await drop_unfinished(self._run_dir, policies)
            try:
                await asyncio.to_thread(name_weights, self._run_dir, policies, name)
                saved = await self._save(name, counters)
            except (OSError, ServiceError) as error:
                await drop_unfinished(self._run_dir, policies)
                text = str(error) if isinstance(error, ServiceError) else f"checkpoint {name} could not be written: {error}"
                kind = ServiceError if isinstance(error, ServiceError) else PlatoonError
                raise kind(f"{text}; {kept(self._run_dir)}") from error
            saved_whole(self._run_dir)
            return saved

    async def _save(self, name: str, counters: Counters) -> Mapping[str, SavedWeights]:
        writers = self._participants.capture()
        rows = {policy.id: _row(name, policy, counters) for policy in (self._main, *self._others)}
        entries = await asyncio.to_thread(_write_states, writers, name)
        paths = await together(*(self._save_other(policy, name, rows[policy.id]) for policy in self._others))
        saved = {policy.id: path for policy, path in zip(self._others, paths, strict=True)}
        saved[MAIN] = await self._main.save(name)
        row = {**rows[MAIN], **_paths(saved[MAIN]), **entries}
        if name == FINAL:
            row["final"] = True
        if self._others:
            row["policies"] = {key: {**rows[key], **_paths(paths)} for key, paths in saved.items() if key != MAIN}
        await asyncio.to_thread(append_json_line, policy_file(self._run_dir, MAIN), row)
        return saved

    async def _save_other(self, policy: Policy, name: str, row: Mapping[str, Any]) -> SavedWeights:
        saved = await policy.save(name)
        await asyncio.to_thread(append_json_line, policy_file(self._run_dir, policy.id), {**row, **_paths(saved)})
        return saved


def _row(name: str, policy: Policy, counters: Counters) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name,
        "batch": counters.step,
        "start": counters.start,
        "policy_version": counters.versions[policy.id],
        "optimizer_steps": policy.learner.optimizer_steps,
        "rows_digest": counters.rows_digest,
    }
    if counters.epoch is not None:
        row["epoch"] = counters.epoch
    return row


def _paths(saved: SavedWeights) -> dict[str, str]:
    return {"state_path": saved.state_path, "sampler_path": saved.sampler_path}


def _write_states(writers: Sequence[StateWriter], name: str) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for write in writers:
        entries.update(write(name))
    return entries
