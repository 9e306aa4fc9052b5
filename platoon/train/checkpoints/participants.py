"""Who else takes part in a run's checkpoints: keys of the row, claimed once, captured at one instant, given back at a resume."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from platoon.errors import ConfigError, Problem

# Fields of the row itself, of the run's counters, and of runs with several policies.
OWN_KEYS = frozenset({"name", "batch", "epoch", "final", "state_path", "sampler_path", "start", "rows_digest", "time"})
COUNTER_KEYS = frozenset({"batch", "wandb_run_id", "policy_version", "optimizer_steps"})
POLICY_KEYS = frozenset({"policies", "commit_seq"})
RESERVED = OWN_KEYS | COUNTER_KEYS | POLICY_KEYS
# What a hook may not claim either: they are the trainer's.
HOOK_RESERVED = frozenset({"tasks", "next_position", "dispatch", "credit"})

# Writes the files of a captured state under a checkpoint's name, in a thread, and returns the row's entries.
StateWriter = Callable[[str], Mapping[str, Any]]


class CheckpointParticipant(Protocol):
    """Part of every full save.

    keys: what it writes into the row. capture: synchronous, so that all participants show one instant; it returns the writer of
    what it captured. restore: gets the row of the checkpoint a start goes on from; not called in a fresh run.
    """

    name: str
    keys: Sequence[str]

    def capture(self) -> StateWriter: ...

    def restore(self, row: Mapping[str, Any]) -> None: ...


@runtime_checkable
class ReadsFiles(Protocol):
    """A participant whose part of a row names files."""

    def lacks(self, row: Mapping[str, Any]) -> str | None: ...


class Participants:
    """The participants of a run, in the order they registered."""

    def __init__(self) -> None:
        self._members: list[CheckpointParticipant] = []

    def register(self, participant: CheckpointParticipant, *, hook: bool = False) -> None:
        """Raises ConfigError, naming participant and key, for a key that is reserved or registered already."""
        claimed = {key: member.name for member in self._members for key in member.keys}
        problems = []
        for key in participant.keys:
            if key in RESERVED or (hook and key in HOOK_RESERVED):
                problems.append(Problem(f"checkpoint participant {participant.name!r} asks for the reserved key {key!r}"))
            elif key in claimed:
                rule = f"checkpoint participant {participant.name!r} asks for the key {key!r} of {claimed[key]!r}"
                problems.append(Problem(rule))
        if problems:
            raise ConfigError(problems)
        self._members.append(participant)

    def check(self, row: Mapping[str, Any], file: str) -> None:
        """Raises ConfigError for a key of a checkpoint row that nobody claims: its state would be lost in silence."""
        claimed = {key for member in self._members for key in member.keys}
        unknown = sorted(set(row) - RESERVED - claimed)
        if unknown:
            rule = f"checkpoint {row.get('name')!r} holds {', '.join(unknown)}, which no part of this run reads"
            advice = "train with the trainer and hooks that wrote it, or under another run name"
            raise ConfigError(Problem(rule, file=file, advice=advice))

    def lacks(self, row: Mapping[str, Any]) -> str | None:
        """Why a start cannot go on from a row: what a participant would have to read is gone or damaged; None when it can.

        Blocks for the disk. Raises PlatoonError for what cannot be read now.
        """
        lacking = (member.lacks(row) for member in self._members if isinstance(member, ReadsFiles))
        return next((reason for reason in lacking if reason is not None), None)

    def restore(self, row: Mapping[str, Any]) -> None:
        """Gives every participant the row a start goes on from."""
        for member in self._members:
            member.restore(row)

    def capture(self) -> list[StateWriter]:
        """The state of all, of one instant: nothing is awaited in here."""
        return [member.capture() for member in self._members]
