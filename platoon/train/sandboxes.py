"""The sandboxes of a run: labelled with its directory while it lives, and reaped when they outlived a start that was killed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from platoon.host.console import Console
from platoon.sandbox import labels

# What the current start has running, so that the next one can reap it.
RECORDS_FILE = "sandboxes.json"
REAP_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0


@asynccontextmanager
async def run_sandboxes(run_dir: Path, console: Console) -> AsyncIterator[None]:
    """Sandboxes started in the block bear the run's label; none of them, nor any of an earlier start, outlives it."""
    path = run_dir / RECORDS_FILE
    records = _records(path)
    if records:
        console.progress("reaping", "sandboxes of an earlier start")
        count = await labels.reap_records(records, REAP_TIMEOUT_S)
        console.say(f"reaped {count} sandboxes of an earlier start")
    before = labels.LIVE.labels
    labels.set_labels(labels.run_labels(run_dir))
    labels.LIVE.mirror_to(path)
    try:
        yield
    finally:
        await labels.LIVE.stop_live(STOP_TIMEOUT_S)
        await labels.reap_records([*records, *labels.LIVE.records()], REAP_TIMEOUT_S)
        labels.LIVE.mirror_to(None)
        labels.set_labels(before)
        path.unlink(missing_ok=True)


def _records(path: Path) -> list[dict[str, Any]]:
    with suppress(OSError, ValueError):
        value = json.loads(path.read_bytes())
        if isinstance(value, list):
            return [record for record in value if isinstance(record, dict)]
    return []
