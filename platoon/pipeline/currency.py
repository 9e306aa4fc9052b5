"""Whether the figures of a results folder are those of what it holds now.

Snakemake deletes a receipt before it makes it again: after a refused start it is gone, and summary and page still show what it
said. A unit is told once, by the first of: its receipt is gone, is not the one the summary was made from, was made from other
inputs, or from other weights than those the run it starts from has now.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from platoon.artifacts.digests import sha256_file
from platoon.artifacts.receipts import read_receipt
from platoon.errors import ConfigError
from platoon.pipeline.layout import EVALUATION_PREFIX, inputs_of, receipt_of
from platoon.pipeline.summary import summarise


def outdated(results: Path, summary: Mapping[str, Any]) -> Iterator[str]:
    """A line for each run and evaluation whose figures in the summary are of an earlier one. Inputs need not be there."""
    weights = {run: _weights(receipt_of(results, run)) for run in summary["runs"]}
    for table, noun in (("runs", "run"), ("evaluations", "evaluation")):
        # An evaluation of no run has no place in the folder.
        placed = {name: row for name, row in summary[table].items() if table == "runs" or row.get("run") is not None}
        for name, row in placed.items():
            if why := _why(results, table, name, row, weights):
                yield f"{name}: {why}; these are figures of an earlier {noun}"


def _weights(path: Path) -> str | None:
    """Of a run's receipt; None without one."""
    try:
        return str(read_receipt(path, "train")["checkpoint"]["weights"])
    except ConfigError:
        return None


def _why(results: Path, table: str, name: str, row: Mapping[str, Any], weights: Mapping[str, str | None]) -> str:
    trains = table == "runs"
    path = receipt_of(results, name) if trains else receipt_of(results, row["run"], name)
    try:
        receipt = read_receipt(path)
    except ConfigError:
        return f"{path} cannot be read" if os.path.lexists(path) else f"no receipt {path} now"
    if summarise([receipt])[table].get(name) != row:
        return "its receipt is another one now"
    inputs = inputs_of(results, name if trains else f"{EVALUATION_PREFIX}{name}")
    made_from = receipt.get("inputs") or {}
    changed = [file for file, digest in made_from.items() if (inputs / file).is_file() and sha256_file(inputs / file) != digest]
    if changed:
        return f"its inputs are others now ({', '.join(changed)})"
    parent = (receipt.get("parent") or {}) if trains else receipt
    run = str(parent.get("run"))
    if run not in weights:
        return ""
    if weights[run] is None:
        return f"{run}, which it is of, has no receipt now"
    return "" if weights[run] == parent.get("weights") else f"{run}, which it is of, is another one now"
