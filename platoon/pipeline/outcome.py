"""What the workflow was asked for, told by itself as it ends: Snakemake alone reads options, profiles and files of settings."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from platoon.artifacts.reading import parse_json

# The variable of the environment by which a parent asks the workflow for the line.
ASKED = "PLATOON_WORKFLOW_OUTCOME"
_MARK = "workflow outcome: "


@dataclass(frozen=True)
class Outcome:
    """results: absolute. executed: whether jobs were run or planned, not rules listed, a lock removed or the like."""

    results: str
    executed: bool
    dry_run: bool


def tell(workflow: Any, results: Path) -> None:
    """Writes the line of a Snakemake workflow, whose `executor_plugin` is there once it begins to execute."""
    outcome = Outcome(str(results), workflow.executor_plugin is not None, workflow.dryrun)
    print(f"{_MARK}{json.dumps(asdict(outcome))}", file=sys.stderr, flush=True)  # noqa: T201  because its parent reads this


def outcome_of(line: str) -> Outcome | None:
    """The outcome that a line tells; None for any other line."""
    return Outcome(**parse_json(line.removeprefix(_MARK))) if line.startswith(_MARK) else None
