"""`platoon show`: the headline figures of a results folder as tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from platoon.cli.options import FILE
from platoon.cli.screen import print_table, say, screen, tell_json, warn
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
        tell_json(summary)
        for line in old:
            warn(line)
        return
    console = screen()
    for title, columns, rows, texts in _tables(summary):
        print_table(console, title, rows, columns, numbers=set(columns[texts:]))
    page = results / "report.html"
    if page.exists():
        say(console, f"report: {page}" + (", of these same figures" if old else ""))
    for line in old:
        console.print(line, style="bold", soft_wrap=True)


def _tables(summary: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]], int]]:
    """Title, columns, rows, and how many of the columns are texts."""
    from platoon.config.numbers import number, score, seconds

    runs: list[tuple[str, ...]] = []
    # A run comes after the one it started from, an evaluation where its run does.
    order = _in_order(summary["runs"])
    for name in order:
        row = summary["runs"][name]
        tokens, spent = row["tokens"], row["seconds"]
        figures = (number(row.get("steps")), number(row.get("rollouts")), score(row.get("mean_reward")))
        runs.append((name, *figures, number(tokens.get("completion")), seconds(spent.get("total"))))
    yield "runs", ("run", "steps", "rollouts", "mean reward", "tokens sampled", "time in steps"), runs, 1
    evaluations: list[tuple[str, ...]] = []
    parts = sorted({part for row in summary["evaluations"].values() for part in row["components"]})
    parts = [part for part in parts if part != "reward"]
    found = summary["evaluations"]
    place = {run: number for number, run in enumerate(order)}
    for name in sorted(found, key=lambda name: (place.get(found[name].get("run"), -1), name)):
        row = found[name]
        components, spent = row["components"], row["seconds"]
        scores = (score(row.get("mean_reward")), *(score(components.get(part)) for part in parts))
        evaluations.append((name, row.get("run") or "", *scores, number(row.get("rollouts")), seconds(spent.get("total"))))
    yield "evaluations", ("evaluation", "of run", "mean reward", *parts, "rollouts", "wall time"), evaluations, 2


def _in_order(runs: dict[str, Any]) -> list[str]:
    """Names of runs, parents first."""

    def depth(name: str, seen: frozenset[str] = frozenset()) -> int:
        parent = runs[name].get("parent")
        return 0 if parent not in runs or parent in seen else 1 + depth(parent, seen | {name})

    return sorted(runs, key=lambda name: (depth(name), name))
