"""The sandboxes of a run: labelled with its directory while it lives, and reaped when they outlived a start that was killed.

`sandboxes.json` lists what the start that lives has running, and what dead ones had: a start that is killed before it ended the
sandboxes of those before it hands them on. An entry goes when nothing of it is left.
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from platoon.config.text import counted
from platoon.host.console import Console, near
from platoon.sandbox import labels
from platoon.sandbox.reaping import REAP_TIMEOUT_S, RECORDS_FILE, reap_all, run_records

STOP_TIMEOUT_S = 30.0


@asynccontextmanager
async def run_sandboxes(run_dir: Path, console: Console) -> AsyncIterator[None]:
    """Sandboxes started in the block bear the run's label; none of them, nor any of an earlier start, outlives it."""
    path = run_dir / RECORDS_FILE
    earlier = run_records(run_dir)
    _remove_torn(run_dir)
    if earlier:
        console.progress("reaping", "sandboxes of an earlier start")
        reaped = await labels.reap_records(earlier, REAP_TIMEOUT_S)
        console.say(f"reaped {counted(reaped.count, 'sandbox', 'sandboxes')} of an earlier start")
    before = labels.LIVE.labels
    labels.set_labels(labels.run_labels(run_dir))
    labels.LIVE.mirror_to(path, earlier)
    try:
        yield
    finally:
        await labels.LIVE.stop_live(STOP_TIMEOUT_S)
        left = await reap_all(labels.distinct([*earlier, *labels.LIVE.records()]))
        labels.LIVE.mirror_to(None)
        labels.set_labels(before)
        if left:
            # The file names them still.
            for reason in left:
                console.say(f"warning: left behind: {reason}")
            console.say(f"once nothing holds what is left: platoon sandbox reap {shlex.quote(str(near(run_dir)))}")
        else:
            path.unlink(missing_ok=True)


def _remove_torn(run_dir: Path) -> None:
    """What a kill left of a list that was being written."""
    for torn in run_dir.glob(f".{RECORDS_FILE}.*"):
        torn.unlink(missing_ok=True)
