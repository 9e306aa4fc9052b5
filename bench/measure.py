"""Measures one case: ours and its peers take turns, so that a busy machine slows them all.

CPU time counts children that were waited for; the collector of Python is off. One round warms up and compares results, five are
measured, medians are kept. The peak of memory is taken in a fresh process (`bench.memory`).
"""

from __future__ import annotations

import gc
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.case import Case, Peer, Timed
from platoon import _native

ROUNDS = 5
# A measurement shorter than this is mostly the clock: the work is repeated until it is not.
MEASURED_S = 0.02
# The small run of CI: a limit holds when the ratio is within this factor of it in one of so many attempts.
SMALL_SLACK = 2.0
SMALL_ATTEMPTS = 3
ROOT = Path(__file__).resolve().parents[1]

Times = tuple[float, float]
Row = dict[str, Any]


def measure(case: Case, *, small: bool, peak_mb: float) -> list[Row]:
    """A row a peer. AssertionError where ours and a peer do not agree."""
    for attempt in range(SMALL_ATTEMPTS if small else 1):
        rows = measure_once(case, small=small, peak_mb=peak_mb, is_first=attempt == 0)
        if all(row["holds"] for row in rows):
            break
    return rows


def measure_once(case: Case, *, small: bool, peak_mb: float, is_first: bool) -> list[Row]:
    peers = [peer for peer in case.peers if peer.run is not None and not peer.missing]
    works: list[Callable[[], Any]] = [case.ours, *(peer.run for peer in peers if peer.run is not None)]
    if is_first:
        compare(case, peers)
    gc.collect()
    gc.disable()
    try:
        repeats = [repeats_for(work) for work in works]
        rounds = [[clocked(work, count) for work, count in zip(works, repeats, strict=True)] for _ in range(ROUNDS)]
    finally:
        gc.enable()
    medians = [median([taken[index] for taken in rounds]) for index in range(len(works))]
    times = {peer.name: taken for peer, taken in zip(peers, medians[1:], strict=True)}
    return [row_of(case, peer, medians[0], times.get(peer.name), small=small, peak_mb=peak_mb) for peer in case.peers]


def compare(case: Case, peers: list[Peer]) -> None:
    ours = case.ours()
    for peer in peers:
        theirs = peer.run() if peer.run is not None else None
        found = theirs.found if isinstance(theirs, Timed) else theirs
        assert peer.same is None or peer.same(ours, found), f"{case.kernel}: {peer.name} computes something else"


def row_of(case: Case, peer: Peer, ours: Times, theirs: Times | None, *, small: bool, peak_mb: float) -> Row:
    """One row of the results. A peer that is missing here holds nothing."""
    index = 0 if peer.by == "cpu" else 1
    if peer.fixed_ms is not None:
        theirs = (peer.fixed_ms, peer.fixed_ms)
    limit = peer.limit
    if small and limit is not None:
        limit = (peer.small_limit or limit) * SMALL_SLACK
    ratio = ours[index] / theirs[index] if theirs else None
    fits = case.peak_limit_mb is None or peak_mb <= case.peak_limit_mb
    return {
        "kernel": case.kernel,
        "data": case.data,
        "ours_cpu_ms": round(ours[0], 4),
        "ours_wall_ms": round(ours[1], 4),
        "peer": peer.name,
        "peer_cpu_ms": round(theirs[0], 4) if theirs else None,
        "peer_wall_ms": round(theirs[1], 4) if theirs else None,
        "by": peer.by,
        "ratio": round(ratio, 3) if ratio is not None else None,
        "limit": limit,
        "holds": fits and (limit is None or (ratio is not None and ratio <= limit)),
        "missing": peer.missing,
        "peak_mb": peak_mb,
        "peak_limit_mb": case.peak_limit_mb,
        "versions": versions() | ({peer.name: peer.version} if peer.version else {}),
    }


def peak_of(name: str, index: int, scale: float) -> float:
    """What one call of ours adds to the memory of a process that did nothing else, in MiB."""
    command = [sys.executable, "-m", "bench.memory", name, str(index), str(scale)]
    return float(json.loads(subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE).stdout))


def clocked(work: Callable[[], Any], repeats: int) -> Times:
    """CPU and wall milliseconds of one call, over `repeats` of them, or what the last one says of itself."""
    cpu, wall = cpu_s(), time.perf_counter()
    for _ in range(repeats):
        result = work()
    if isinstance(result, Timed):
        return result.cpu_ms, result.wall_ms
    return (cpu_s() - cpu) / repeats * 1000, (time.perf_counter() - wall) / repeats * 1000


def cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def repeats_for(work: Callable[[], Any]) -> int:
    return max(1, int(MEASURED_S * 1000 / max(clocked(work, 1)[1], 1e-3)))


def median(times: list[Times]) -> Times:
    return statistics.median(taken[0] for taken in times), statistics.median(taken[1] for taken in times)


def versions() -> dict[str, str]:
    return {
        "platoon": str(_native.build_info()["version"]),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pyarrow": pa.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {processor()}",
    }


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"
