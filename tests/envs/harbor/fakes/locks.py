"""Locks of tasks that were never fetched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from platoon.envs.harbor.lock import HarborLock, LockRow

DIGEST = f"sha256:{'0' * 64}"
FLAGS: Mapping[str, Any] = {
    "stack": "single",
    "verifier": "shared",
    "artifacts": 0,
    "network": "public",
    "gpus": 0,
    "agent_user": None,
    "verifier_user": None,
    "os": "linux",
    "upload_bytes": 0,
}


def make_row(name: str = "t", **values: Any) -> LockRow:
    """A row of a task that can run in no image of its own."""
    return replace(LockRow(name, DIGEST, name, flags=FLAGS, image={"kind": "none"}), **values)


def make_lock(*rows: LockRow, plans: Mapping[str, Any] | None = None) -> HarborLock:
    selection = {"tasks": {}, "select": {}, "selected": len(rows), "of": len(rows)}
    return HarborLock("d", "tree:x", {"kind": "directory"}, "me", "0" * 64, selection, rows, plans=plans or {})
