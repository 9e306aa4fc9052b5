"""Measures one case: ours and its peers take turns, so that a busy machine slows them all.

CPU time counts children that were waited for; the collector of Python is off. One round warms up and compares results, five are
measured, medians are kept. The peak of memory is taken in a fresh process (`bench.memory`).

The small run is a gate for a machine that does other work: that makes a turn slower and none faster, so the best turn of each side
is kept, and where a limit is missed more turns are taken before it counts. Each row has a limit of its own, near what is measured
at the small size, with room for ratios that another processor moves. It catches a kernel that takes twice the CPU time that it
took, one that computes something else than its peer, and a peak of memory beyond its limit. It cannot catch what is slower by less;
what shows at full size alone (columns beyond the caches, page faults, costs that grow faster than the data); what threads gain,
since ratios of wall times are not judged; and, where a time is given instead of a peer, what stays within it.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.case import Case, Peer, Timed
from platoon import _native

ROUNDS = 5
# A measurement shorter than this is mostly the clock: the work is repeated until it is not.
MEASURED_S = 0.02
# The small run takes rounds, five at a time, until its limits hold, or so many times.
SMALL_ATTEMPTS = 6
# What the ratio to a peer may differ by on another processor, whose caches and vectors help one side more.
OTHER_PROCESSOR = 1.3
ROOT = Path(__file__).resolve().parents[1]

Times = tuple[float, float]
Row = dict[str, Any]


def measure(case: Case, *, small: bool, peak_mb: float) -> list[Row]:
    """A row a peer. AssertionError where ours and a peer do not agree."""
    peers = [peer for peer in case.peers if peer.run is not None and not peer.missing]
    works: list[Callable[[], Any]] = [case.ours, *(peer.run for peer in peers if peer.run is not None)]
    compare(case, peers)
    repeats = [repeats_for(work) for work in works]
    rounds: list[list[Times]] = []
    for _ in range(SMALL_ATTEMPTS if small else 1):
        rounds += measured(works, repeats)
        ours, *theirs = [kept(turns, min if small else statistics.median) for turns in zip(*rounds, strict=True)]
        times = {peer.name: taken for peer, taken in zip(peers, theirs, strict=True)}
        rows = [row_of(case, peer, ours, times.get(peer.name), small=small, peak_mb=peak_mb) for peer in case.peers]
        if all(row["holds"] or row["missing"] for row in rows):
            break
    return rows


def measured(works: list[Callable[[], Any]], repeats: list[int]) -> list[list[Times]]:
    gc.collect()
    gc.disable()
    try:
        return [[clocked(work, count) for work, count in zip(works, repeats, strict=True)] for _ in range(ROUNDS)]
    finally:
        gc.enable()


def kept(turns: Sequence[Times], choose: Callable[[list[float]], float]) -> Times:
    return choose([taken[0] for taken in turns]), choose([taken[1] for taken in turns])


def compare(case: Case, peers: list[Peer]) -> None:
    ours = case.ours()
    for peer in peers:
        theirs = peer.run() if peer.run is not None else None
        found = theirs.found if isinstance(theirs, Timed) else theirs
        assert peer.same is None or peer.same(ours, found), f"{case.kernel}: {peer.name} computes something else"


def row_of(case: Case, peer: Peer, ours: Times, theirs: Times | None, *, small: bool, peak_mb: float) -> Row:
    """One row of the results. A peer that is missing here holds nothing. `bound` names what explains a limit that does not hold."""
    index = 0 if peer.by == "cpu" else 1
    if peer.fixed_ms is not None:
        theirs = (peer.fixed_ms, peer.fixed_ms)
    limit = small_limit(peer) if small else peer.limit
    ratio = ours[index] / theirs[index] if theirs else None
    fits = case.peak_limit_mb is None or peak_mb <= case.peak_limit_mb
    holds = fits and (limit is None or (ratio is not None and ratio <= limit))
    is_bound = not small and not holds and fits and peer.bound is not None and ratio is not None and ratio <= peer.bound.ratio
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
        "holds": holds,
        "bound": peer.bound.section if peer.bound and is_bound else "",
        "missing": peer.missing,
        "peak_mb": peak_mb,
        "peak_limit_mb": case.peak_limit_mb,
        "versions": versions() | ({peer.name: peer.version} if peer.version else {}),
    }


def small_limit(peer: Peer) -> float | None:
    """None for the ratio of two wall times: a neighbour that takes a core is enough to miss it."""
    if peer.by == "wall" and peer.fixed_ms is None:
        return None
    limit = peer.small_limit or (peer.bound.ratio if peer.bound else peer.limit)
    return limit if limit is None or peer.fixed_ms is not None else limit * OTHER_PROCESSOR


def peak_of(name: str, index: int, scale: float) -> float:
    """What one call of ours adds to the memory of a process that did nothing else, in MiB."""
    command = [sys.executable, "-m", "bench.memory", name, str(index), str(scale)]
    return float(json.loads(subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE).stdout))


def clocked(work: Callable[[], Any], repeats: int) -> Times:
    """CPU and wall milliseconds of one call, over `repeats` of them, or what one says of itself."""
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
