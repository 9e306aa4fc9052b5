"""Data that lies on a disk: made once a run from seeded generators, shared with the processes that measure memory.

BENCH_DATA names the directory; the runner makes one and removes it where it is not set. Set, it is kept for the next run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

VARIABLE = "BENCH_DATA"


def made(name: str, build: Callable[[Path], None]) -> Path:
    """The path that `build` fills, a file or a directory. `name` tells the size and whatever else changes what is built."""
    place = Path(os.environ[VARIABLE]) / name
    if not place.exists():
        part = place.with_name(f"{name}.part")
        if part.is_dir():
            shutil.rmtree(part)
        part.unlink(missing_ok=True)
        build(part)
        part.rename(place)
    return place
