"""Where a start begins: the newest row of main whose references are all alive, walking backwards.

A row names the state of main and of every other trained policy, and files of the run directory. One of them that is gone or damaged
takes the row out, because only a whole row trains each position once: the row before it goes on exactly, without it the order would
have to guess. Rows passed over are reported, never repaired. What cannot be read now, but may be later, ends the start instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platoon.config.text import counted
from platoon.errors import ConfigError, Problem
from platoon.train.checkpoints.rows import checkpoint_rows, policy_file
from platoon.train.policy.spec import MAIN


@dataclass(frozen=True)
class PolicyStart:
    """state_path: None for a fresh policy."""

    state_path: str | None = None
    sampler_path: str | None = None
    version: int = 0
    optimizer_steps: int = 0


@dataclass(frozen=True)
class PassedOver:
    """name: of the checkpoint."""

    name: str
    reason: str


@dataclass(frozen=True)
class StartPoint:
    """What a start goes on from. row: main's row, None in a fresh run. passed_over: newer rows that cannot be used, and why."""

    step: int = 0
    rows_digest: str = ""
    row: Mapping[str, Any] | None = None
    policies: Mapping[str, PolicyStart] = field(default_factory=dict)
    passed_over: tuple[PassedOver, ...] = ()

    def of(self, policy: str) -> PolicyStart:
        return self.policies.get(policy, PolicyStart())


def next_start(rows: Sequence[Mapping[str, Any]]) -> int:
    """The number of the next start: one more than any row names."""
    return 1 + max((row.get("start", 0) for row in rows), default=0)


async def find_start_point(
    run_dir: Path,
    trained: Sequence[str],
    alive: Callable[[str, str], Awaitable[bool]],
    lacks: Callable[[Mapping[str, Any]], Awaitable[str | None]],
    fresh_digest: str,
) -> StartPoint:
    """The start point of a run whose trained policies are `trained`.

    alive: asks whether a policy's service still has a state path. lacks: says what a row names in the run directory and is not
    whole. Raises ConfigError when there are rows and none can be used.
    """
    rows = checkpoint_rows(run_dir)
    passed_over: list[PassedOver] = []
    for row in reversed(rows):
        policies = _policies_of(row)
        known = all(policy in policies for policy in trained)
        if not known or not all([await alive(policy, str(policies[policy].state_path)) for policy in trained]):
            reason = "the training service no longer has it, or cannot read it"
        elif (lacking := await lacks(row)) is not None:
            reason = lacking
        else:
            return StartPoint(row["batch"], row["rows_digest"], row, policies, tuple(passed_over))
        passed_over.append(PassedOver(row["name"], reason))
    if passed_over:
        newest = passed_over[0]
        rule = f"none of its {counted(len(rows), 'checkpoint')} can be resumed; the newest, {newest.name}: {newest.reason}"
        advice = "train under another run name, or bring back what the checkpoints name"
        raise ConfigError(Problem(rule, file=str(policy_file(run_dir, MAIN)), advice=advice))
    return StartPoint(rows_digest=fresh_digest)


def _policies_of(row: Mapping[str, Any]) -> dict[str, PolicyStart]:
    entries = {MAIN: row, **row.get("policies", {})}
    return {policy: _policy_start(entry, row) for policy, entry in entries.items()}


def _policy_start(entry: Mapping[str, Any], row: Mapping[str, Any]) -> PolicyStart:
    # Rows without counters imply one publication and one optimizer step per step of the run.
    version, steps = entry.get("policy_version", row["batch"]), entry.get("optimizer_steps", row["batch"])
    return PolicyStart(entry["state_path"], entry["sampler_path"], version, steps)
