"""What a benchmark file gives the runner: cases, and the peers beside which each runs.

A file `bench/<name>.py` holds one kernel and gives `cases(scale)`: 1.0 stands for the sizes that the limits are stated for, less
for the small run of CI. Data comes from seeded generators; what lies on a disk comes from `bench.data`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Timed:
    """What a peer computed, where it measures itself: a program whose start is no part of the work."""

    found: Any
    cpu_ms: float
    wall_ms: float


@dataclass(frozen=True)
class Bound:
    """Why a limit is missed. section: the heading on the page that shows it. ratio: what is beyond it is not explained."""

    section: str
    ratio: float


FLOOR = "floor: "


@dataclass(frozen=True)
class Peer:
    """Something ours is compared with.

    run: does the whole work and returns what it computed, or a `Timed`; None where `fixed_ms` stands for it, or a tool is missing.
        What does a part of the work is a floor, and its name says so.
    limit: the ratio, ours to it, that must hold at full size; None for a floor of which nothing is claimed. Nothing else is without
        one: the core is to be ahead of each peer.
    same: whether two results agree; one that computes something else is no peer. A floor may do without.
    small_limit: the limit of the small run: about one and a half times what is measured there; the limit where it is None.
    bound: where the limit is known to be missed, the reason. The row says that it does not hold, and the run does not fail for it.
    by: whether CPU (children included) or wall time is compared.
    fixed_ms: a time from a requirement instead of a measurement.
    missing: what keeps it from running here, such as "no unsquashfs".
    version: of the tool or library, for the results.
    """

    name: str
    run: Callable[[], Any] | None = None
    limit: float | None = None
    same: Callable[[Any, Any], bool] | None = None
    small_limit: float | None = None
    bound: Bound | None = None
    by: Literal["cpu", "wall"] = "cpu"
    fixed_ms: float | None = None
    missing: str = ""
    version: str = ""

    def __post_init__(self) -> None:
        if self.limit is None and not self.name.startswith(FLOOR):
            raise ValueError(f"{self.name}: a peer that is no floor has a limit")


@dataclass(frozen=True)
class Case:
    """One kernel on one data set beside its peers. peak_limit_mb bounds what one call adds to a fresh process."""

    kernel: str
    data: str
    ours: Callable[[], Any]
    peers: tuple[Peer, ...]
    peak_limit_mb: float | None = None


def command(*arguments: str) -> Callable[[], bytes]:
    """A peer that is a program: its output. Its CPU time counts through the times of waited-for children."""

    def run() -> bytes:
        return subprocess.run(arguments, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout

    return run


def tool_version(arguments: Sequence[str]) -> str:
    """The first line of what a program says of itself, wherever it says it."""
    ended = subprocess.run(arguments, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = ended.stdout.decode(errors="replace").splitlines()
    return lines[0] if lines else ""
