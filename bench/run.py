"""Runs every benchmark: `python -m bench.run [NAME...]`.

Ours and the peer take turns in one process, so that a busy machine slows both; CPU time decides, wall time is shown. One round
warms up, five are measured, medians are kept. Writes bench/results/latest.json (a list of rows) and docs/reference/benchmarks.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.case import Case
from platoon import _native

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("tree_hash", "merge", "credit", "block_digest")
ROUNDS = 5
# A measurement shorter than this is mostly the clock: the work is repeated until it is not.
MEASURED_S = 0.02


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description="kernels beside their peers")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(NAMES)}; all without one")
    chosen = parser.parse_args(arguments).names or NAMES
    rows = [measure(case) for name in chosen for case in importlib.import_module(f"bench.{name}").cases()]
    results = ROOT / "bench/results/latest.json"
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps(rows, indent=1) + "\n")
    text = page(rows)
    (ROOT / "docs/reference/benchmarks.md").write_text(text)
    print(text)
    return 0 if all(row["holds"] for row in rows) else 1


def measure(case: Case) -> dict[str, Any]:
    """One row of the results. AssertionError where ours and the peer do not agree."""
    assert case.same(case.ours(), case.theirs()), f"{case.kernel}: {case.peer} computes something else"
    samples: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
    repeats = {name: repeats_for(getattr(case, name)) for name in samples}
    for _ in range(ROUNDS):
        for name, times in samples.items():
            times.append(clocked(getattr(case, name), repeats[name]))
    medians = {name: [statistics.median(column) * 1000 for column in zip(*times, strict=True)] for name, times in samples.items()}
    ratio = medians["ours"][0] / medians["theirs"][0]
    return {
        "kernel": case.kernel,
        "data": case.data,
        "ours_cpu_ms": round(medians["ours"][0], 4),
        "ours_wall_ms": round(medians["ours"][1], 4),
        "peer": case.peer,
        "peer_cpu_ms": round(medians["theirs"][0], 4),
        "peer_wall_ms": round(medians["theirs"][1], 4),
        "ratio": round(ratio, 3),
        "limit": case.limit,
        "holds": case.limit is None or ratio <= case.limit,
        "versions": versions(),
    }


def clocked(work: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """CPU and wall seconds of one call, over `repeats` of them."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.process_time() - cpu) / repeats, (time.perf_counter() - wall) / repeats


def repeats_for(work: Callable[[], Any]) -> int:
    return max(1, int(MEASURED_S / max(clocked(work, 1)[0], 1e-6)))


def versions() -> dict[str, str]:
    return {
        "platoon": str(_native.build_info()["version"]),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pyarrow": pa.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
    }


def page(rows: list[dict[str, Any]]) -> str:
    """The reference page."""
    lines = [
        "# Benchmarks",
        "",
        "Made by `make bench`. Only the ratio says something: ours to the peer's CPU time, medians of five turns in one process.",
        "Times differ between machines; ratios move with caches, with data far from the sizes given, and with the file system.",
        "",
        "| kernel | data | ours, ms | peer | peer, ms | ratio | limit |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        limit = "" if row["limit"] is None else f"{row['limit']}{'' if row['holds'] else ' (missed)'}"
        lines.append(
            f"| {row['kernel']} | {row['data']} | {row['ours_cpu_ms']:.3f} | {row['peer']} | {row['peer_cpu_ms']:.3f} "
            f"| {row['ratio']:.2f} | {limit} |"
        )
    if rows:
        lines += ["", ", ".join(f"{name} {version}" for name, version in rows[0]["versions"].items()) + "."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
