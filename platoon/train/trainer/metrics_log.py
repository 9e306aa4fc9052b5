"""`metrics.jsonl`: one row a step of the run, durable before the checkpoint that follows it.

A start drops the rows of steps that it is about to do again, so that each step appears once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platoon.artifacts.publish import WRITABLE, append_json_line, publish_bytes, read_json_lines

FILE = "metrics.jsonl"


class MetricsLog:
    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / FILE

    def begin(self, step: int) -> None:
        """Keeps the rows up to `step`, the last step that counts."""
        rows = read_json_lines(self._path)
        kept = [row for row in rows if int(row.get("step", 0)) <= step]
        if len(kept) < len(rows):
            lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in kept]
            publish_bytes(self._path, "".join(f"{line}\n" for line in lines).encode(), WRITABLE)

    def append(self, step: int, start: int, metrics: Mapping[str, Any]) -> None:
        """step: number of steps completed with this one. Values that are no finite number are written as text."""
        append_json_line(self._path, {"step": step, "start": start, **{key: _finite(value) for key, value in metrics.items()}})


def _finite(value: Any) -> Any:
    if isinstance(value, float) and value - value != 0.0:
        return repr(value)
    return value
