"""`metrics.jsonl`: one row a step of the run, durable before the checkpoint that follows it.

A start drops the rows of steps that it is about to do again, so that each step appears once. What a receipt tells of a row is
judged when it is read; the other metrics are the reader's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from platoon.artifacts.publish import WRITABLE, publish_bytes
from platoon.artifacts.row_log import append_json_line
from platoon.config.text import printable, show
from platoon.errors import Problem
from platoon.train.metrics import FILE
from platoon.train.run_directory.row_logs import MOST, Count, Row, Text, read_rows

ADVICE = "delete the line, which loses the figures of its step alone, or bring it back as it was"
# Metric name -> place in a row of a receipt's curve.
CURVE: dict[str, tuple[str, ...]] = {
    "train/reward": ("reward",),
    "train/loss": ("loss",),
    "train/rollouts": ("rollouts",),
    "train/staleness/mean": ("staleness", "mean"),
    "train/staleness/max": ("staleness", "max"),
    "train/batch/stale_datums": ("staleness", "stale_rows"),
    "time/waiting": ("seconds", "wait"),
    "time/rollouts": ("seconds", "rollouts"),
    "time/train": ("seconds", "train"),
    "time/publish": ("seconds", "publish"),
    "time/save": ("seconds", "save"),
    "train/tokens/prompt": ("tokens", "prompt"),
    "train/tokens/completion": ("tokens", "completion"),
    "train/tokens/trained": ("tokens", "trained"),
    "train/trained_tokens": ("tokens", "trained"),
    "rows_digest": ("rows_digest",),
}
REWARD = "train/reward"
COMPONENTS = f"{REWARD}/"
TIMES = ("time/step", "time/save", "time/publish")
# The one number of a curve that a model can make infinite.
ANY_LOSS = frozenset({"nan", "inf", "-inf"})


class MetricsRow(Row):
    """The metrics of one step."""

    step: Annotated[int, Field(ge=1, le=MOST)]
    start: Count = 0
    rows_digest: Text = ""

    def checks(self) -> Iterator[Problem]:
        for name, value in (self.__pydantic_extra__ or {}).items():
            if not (name in CURVE or name in TIMES or name.startswith(COMPONENTS)):
                continue
            most = sys.float_info.max if name.startswith(REWARD) else MOST
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (is_number and abs(value) <= most) and not (name == "train/loss" and str(value) in ANY_LOSS):
                yield Problem(f"must be a number of at most {most:g}, got {show(value)}", key=printable(name))


def read_metrics(run_dir: Path) -> list[dict[str, Any]]:
    """The rows of a run by rising step, each step once: the newest row counts. Raises ConfigError for a row that is none."""
    rows = {row["step"]: row for row in read_rows(run_dir / FILE, MetricsRow, ADVICE)}
    return [rows[step] for step in sorted(rows)]


class MetricsLog:
    def __init__(self, run_dir: Path) -> None:
        self._run_dir, self._path = run_dir, run_dir / FILE

    def begin(self, step: int) -> None:
        """Keeps the rows up to `step`, the last step that counts."""
        rows = read_metrics(self._run_dir)
        kept = [row for row in rows if row["step"] <= step]
        if len(kept) < len(rows):
            lines = [json.dumps(row, separators=(",", ":")) for row in kept]
            publish_bytes(self._path, "".join(f"{line}\n" for line in lines).encode(), WRITABLE)

    def append(self, step: int, start: int, metrics: Mapping[str, Any]) -> None:
        """step: number of steps completed with this one. Values that are no finite number are written as text."""
        append_json_line(self._path, {"step": step, "start": start, **{key: _finite(value) for key, value in metrics.items()}})


def _finite(value: Any) -> Any:
    if isinstance(value, float) and value - value != 0.0:
        return repr(value)
    return value
