"""`platoon show`: the headline figures of a results folder as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from platoon.cli.options import FILE
from platoon.cli.screen import warn
from platoon.pipeline.layout import DEFAULT_RESULTS


@click.command()
@click.argument("results", type=FILE, default=DEFAULT_RESULTS)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def show(results: Path, as_json: bool) -> None:
    """Show what the runs and evaluations of RESULTS came to, and which figures are not of what it holds now."""
    from platoon.pipeline.currency import outdated
    from platoon.pipeline.summary import read_summary

    summary = read_summary(results)
    old = list(outdated(results, summary))
    if as_json:
        import json

        click.echo(json.dumps(summary, sort_keys=True))
        for line in old:
            warn(line)
        return
    from rich.console import Console

    console = Console()
    for table in _tables(summary):
        console.print(table)
    page = results / "report.html"
    if page.exists():
        console.print(f"report: {page}" + (", of these same figures" if old else ""), highlight=False, soft_wrap=True)
    for line in old:
        console.print(line, style="bold", highlight=False, markup=False, soft_wrap=True)


def _tables(summary: dict[str, Any]) -> list[Any]:
    from rich.table import Table

    from platoon.config.numbers import number, score, seconds

    runs = Table(title="runs", title_justify="left", title_style="bold")
    for column in ("run", "steps", "rollouts", "mean reward", "tokens sampled", "time in steps"):
        runs.add_column(column, justify="left" if column == "run" else "right")
    # A run comes after the one it started from, an evaluation where its run does.
    order = _in_order(summary["runs"])
    for name in order:
        row = summary["runs"][name]
        tokens, spent = row["tokens"], row["seconds"]
        runs.add_row(
            name,
            number(row.get("steps")),
            number(row.get("rollouts")),
            score(row.get("mean_reward")),
            number(tokens.get("completion")),
            seconds(spent.get("total")),
        )
    evaluations = Table(title="evaluations", title_justify="left", title_style="bold")
    parts = sorted({part for row in summary["evaluations"].values() for part in row["components"]})
    parts = [part for part in parts if part != "reward"]
    for column in ("evaluation", "of run", "mean reward", *parts, "rollouts", "wall time"):
        evaluations.add_column(column, justify="left" if column in ("evaluation", "of run") else "right")
    found = summary["evaluations"]
    place = {run: number for number, run in enumerate(order)}
    for name in sorted(found, key=lambda name: (place.get(found[name].get("run"), -1), name)):
        row = found[name]
        components, spent = row["components"], row["seconds"]
        evaluations.add_row(
            name,
            row.get("run") or "",
            score(row.get("mean_reward")),
            *(score(components.get(part)) for part in parts),
            number(row.get("rollouts")),
            seconds(spent.get("total")),
        )
    return [runs, evaluations]


def _in_order(runs: dict[str, Any]) -> list[str]:
    """Names of runs, parents first."""

    def depth(name: str, seen: frozenset[str] = frozenset()) -> int:
        parent = runs[name].get("parent")
        return 0 if parent not in runs or parent in seen else 1 + depth(parent, seen | {name})

    return sorted(runs, key=lambda name: (depth(name), name))
