"""`python -m bench.memory NAME INDEX SCALE`: the MiB that one call of a case adds to this process, on stdout.

The high-water mark is cleared after the data stands, and memory that the generators freed is given back first, so that none of it
hides what the call takes.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
from pathlib import Path


def main(name: str, index: str, scale: str) -> None:
    case = importlib.import_module(f"bench.{name}").cases(float(scale))[int(index)]
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = status_kb("VmRSS")
    result = case.ours()
    print(round(max(status_kb("VmHWM") - before, 0) * 1024 / 2**20, 1))
    del result


def status_kb(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    main(*sys.argv[1:])
