"""What a resume needs to go on with the draws: plain values, filled by dispatch and written beside a checkpoint.

File `tasks/dispatch-s<start>-<name>.json`, format 2. Kept groups are named by digest; their rows are files of their own
(`checkpoints.kept_groups`). A task of a mixture reads `<entry>::<task id>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from platoon.errors import ConfigError, PlatoonError, Problem

FORMAT = 2
KEPT_FORMAT = 2


class LostState(PlatoonError):
    """What a checkpoint names of the draws is gone or damaged, for good: only another checkpoint can be gone on from."""


def refuse_format(found: Any, file: str) -> ConfigError:
    """The refusal of what another version wrote: it is whole, so an older checkpoint would throw work away."""
    advice = "go on with the version of platoon that wrote it"
    return ConfigError(Problem(f"format {found} cannot be read by this version", file=file, advice=advice))


@dataclass(frozen=True)
class OutstandingDraw:
    """A draw that was drawn or running: its group is started again by the next start, at its position."""

    start: int
    seq: int
    entry: str
    task_id: str
    position: int
    pool_index: int


@dataclass(frozen=True)
class KeptGroup:
    """A group that settled and was not consumed. digest: of its stored rows and judgements."""

    draw: OutstandingDraw
    digest: str


@dataclass(frozen=True)
class DispatchState:
    """fingerprint: digest of what the order depends on. kept: in settle order. records: statistics per task."""

    start: int
    sampler: str
    fingerprint: str
    next_position: int
    outstanding: tuple[OutstandingDraw, ...] = ()
    kept: tuple[KeptGroup, ...] = ()
    records: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digests(self) -> frozenset[str]:
        """Every stored group this state refers to."""
        return frozenset(group.digest for group in self.kept)

    def to_dict(self) -> dict[str, Any]:
        """The JSON value of the file."""
        return {
            "format": FORMAT,
            "start": self.start,
            "sampler": self.sampler,
            "fingerprint": self.fingerprint,
            "next_position": self.next_position,
            "outstanding": [_draw_row(draw) for draw in self.outstanding],
            "kept": {"format": KEPT_FORMAT, "groups": [[*_draw_row(group.draw), group.digest] for group in self.kept]},
            "records": dict(self.records),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> DispatchState:
        """Raises LostState for a value `to_dict` did not write, ConfigError for one of another version."""
        try:
            if value["format"] != FORMAT or value["kept"]["format"] != KEPT_FORMAT:
                raise refuse_format(value["format"], "dispatch state")
            kept = tuple(KeptGroup(_draw(row[:-1]), str(row[-1])) for row in value["kept"]["groups"])
            return cls(
                int(value["start"]),
                str(value["sampler"]),
                str(value["fingerprint"]),
                int(value["next_position"]),
                tuple(_draw(row) for row in value["outstanding"]),
                kept,
                dict(value["records"]),
            )
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise LostState(f"not a dispatch state: {type(error).__name__}: {error}") from error


def kept_digests(value: Mapping[str, Any]) -> frozenset[str]:
    """The stored groups that a state's JSON value refers to; what pruning must leave alone."""
    return DispatchState.from_dict(value).digests


def _draw_row(draw: OutstandingDraw) -> list[Any]:
    return [draw.start, draw.seq, f"{draw.entry}::{draw.task_id}", draw.position, draw.pool_index]


def _draw(row: list[Any]) -> OutstandingDraw:
    start, seq, name, position, pool_index = row
    entry, separator, task_id = name.partition("::")
    if not separator:
        raise ValueError(f"no entry in task name {name!r}")
    return OutstandingDraw(int(start), int(seq), entry, task_id, int(position), int(pool_index))
