"""A group output as the JSON head and arrays of a stored group, and back: exact, so that a kept group trains like a fresh one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from platoon.train.checkpoints.kept_groups import StoredGroup
from platoon.train.task_records.fates import Verdict
from platoon.train.workflow.output import GroupOutput, MemberOutcome


def to_stored(output: GroupOutput, draw: tuple[int, int]) -> StoredGroup:
    """draw: the key of its draw, so that no two groups are one file.

    Raises ValueError when a number is not finite: it would not survive.
    """
    head = {
        "draw": list(draw),
        "verdict": str(output.verdict),
        "seconds": output.seconds,
        "metrics": dict(output.metrics),
        "error": output.error,
        "members": [_member_row(member) for member in output.members],
    }
    return StoredGroup(head, output.block, output.values_R)


def from_stored(group: StoredGroup) -> GroupOutput:
    """Raises KeyError, TypeError or ValueError for a head that `to_stored` did not write."""
    head = group.head
    members = tuple(_member(row) for row in head["members"])
    return GroupOutput(
        group.block, group.values_R, members, Verdict(head["verdict"]), head["seconds"], dict(head["metrics"]), head["error"]
    )


def _member_row(member: MemberOutcome) -> dict[str, Any]:
    row = asdict(member)
    row["versions"] = {policy: list(span) for policy, span in member.versions.items()}
    return row


def _member(row: Mapping[str, Any]) -> MemberOutcome:
    versions = {policy: (int(oldest), int(newest)) for policy, (oldest, newest) in row["versions"].items()}
    return MemberOutcome(**{**row, "versions": versions})
