"""Weights of a save that never became a row: named before they are asked for, so that what a failure or a kill left can go.

`saving.json` lies in the run directory while a save is under way. Whoever finds it there afterwards has the services delete what it
names and no row does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from platoon.artifacts.publish import WRITABLE, publish_json
from platoon.artifacts.reading import parse_json, read_regular
from platoon.errors import ServiceError
from platoon.train.checkpoints.rows import checkpoint_rows
from platoon.train.policy.policy import Policy

FILE = "saving.json"


def name_weights(run_dir: Path, policies: Sequence[Policy], name: str) -> None:
    """Before the policies are saved as `name`. Raises OSError when the file cannot be written."""
    weights = {policy.id: policy.weights_named(name) for policy in policies}
    named = {policy: [saved.state_path, saved.sampler_path] for policy, saved in weights.items()}
    publish_json(run_dir / FILE, named, WRITABLE)


def saved_whole(run_dir: Path) -> None:
    """After the row of a save is there, or nothing of the save is left."""
    (run_dir / FILE).unlink(missing_ok=True)


async def drop_unfinished(run_dir: Path, policies: Sequence[Policy]) -> None:
    """Deletes what an unfinished save left on the services. What they cannot delete now, a later start asks for again."""
    try:
        named = parse_json(read_regular(run_dir / FILE))
    except FileNotFoundError:
        return
    except ValueError:
        named = None
    rows = [entry for row in checkpoint_rows(run_dir) for entry in (row, *row.get("policies", {}).values())]
    kept = {entry[key] for entry in rows for key in ("state_path", "sampler_path")}
    try:
        for policy, path in _paths(named, policies):
            if path not in kept:
                await policy.delete_weights(path)
    except ServiceError:
        return
    saved_whole(run_dir)


def _paths(named: Any, policies: Sequence[Policy]) -> list[tuple[Policy, str]]:
    """What the file names; nothing where it was torn or written by hand."""
    lists = [(policy, named.get(policy.id)) for policy in policies] if isinstance(named, dict) else []
    return [(policy, path) for policy, paths in lists if isinstance(paths, list) for path in paths if isinstance(path, str)]
