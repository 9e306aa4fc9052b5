"""Runs every benchmark: `python -m bench.run [--small] [NAME...]`.

A full run of every file writes bench/results/latest.json (a list of rows) and docs/reference/benchmarks.md. `--small` takes a
minute, writes nothing, and judges by limits of its own; `bench.measure` says what it can catch. Exit 1 where a limit does not hold
and no paragraph of the page says what bounds it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.data import VARIABLE
from bench.measure import Row, measure, peak_of
from bench.page import page, table

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("tree_hash", "warm_lock", "squash", "layers", "faults", "merge", "credit", "assembly", "block_digest", "task_draws")
SMALL = 0.05


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description="kernels beside their peers")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(NAMES)}; all without one")
    parser.add_argument("--small", action="store_true", help="small sizes and their limits, nothing written")
    options = parser.parse_args(arguments)
    names = tuple(options.names) or NAMES
    with data_directory():
        rows = [row for name in names for row in rows_of(name, small=options.small)]
    if names == NAMES and not options.small:
        results = ROOT / "bench/results/latest.json"
        results.parent.mkdir(exist_ok=True)
        results.write_text(json.dumps(rows, indent=1) + "\n")
        (ROOT / "docs/reference/benchmarks.md").write_text(page(rows))
    print("\n".join(table(rows)))
    missed = [row for row in rows if not row["holds"] and not (options.small and row["missing"])]
    for row in missed:
        print(f"missed: {told(row)}", file=sys.stderr)
    return int(any(not row["bound"] for row in missed))


def told(row: Row) -> str:
    """What is wrong with a row, in a line."""
    reason = row["missing"] or f"{row['ratio']} of {row['limit']:.3g}, peak {row['peak_mb']} MiB"
    return f"{row['kernel']}, {row['data']}, beside {row['peer']}: {reason}{', known: ' * bool(row['bound'])}{row['bound']}"


def rows_of(name: str, *, small: bool) -> Iterator[Row]:
    scale = SMALL if small else 1.0
    for index, case in enumerate(importlib.import_module(f"bench.{name}").cases(scale)):
        print(f"{case.kernel}, {case.data}", file=sys.stderr, flush=True)
        yield from measure(case, small=small, peak_mb=peak_of(name, index, scale))


@contextmanager
def data_directory() -> Iterator[None]:
    if VARIABLE in os.environ:
        Path(os.environ[VARIABLE]).mkdir(parents=True, exist_ok=True)
        yield
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as made:
        os.environ[VARIABLE] = made
        try:
            yield
        finally:
            del os.environ[VARIABLE]


if __name__ == "__main__":
    sys.exit(main())
