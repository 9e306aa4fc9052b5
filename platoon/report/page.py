"""Writes the page: one HTML file that needs nothing else, readable without scripts, with every text of a rollout escaped."""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from platoon.artifacts.publish import publish_bytes
from platoon.config.numbers import change, number, score, seconds
from platoon.report.data import Report
from platoon.report.drawing import Drawn, draw
from platoon.report.figures import CAPTIONS, FIGURES


def write_report(report: Report, page: Path, figures: Path, recipe: str = "") -> None:
    """Writes `page` and one SVG a figure into `figures`."""
    drawn = {name: draw(name, report) for name in FIGURES}
    for name, figure in drawn.items():
        publish_bytes(figures / f"{name}.svg", figure.svg.encode())
    publish_bytes(page, render(report, drawn, recipe).encode())


def render(report: Report, drawn: Mapping[str, Drawn], recipe: str = "") -> str:
    """The page's text. `drawn`: figures by name, whose SVG is taken as it is; everything else is escaped."""
    from jinja2 import Environment, StrictUndefined

    source = importlib.resources.files("platoon.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(number=number, score=score, seconds=seconds)
    environment.globals.update(change=change)
    return environment.from_string(source).render(
        recipe=recipe,
        runs=report.runs,
        evaluations=report.evaluations,
        changes=changes(report),
        parts=report.parts,
        figures=[(name, CAPTIONS[name], drawn[name]) for name in FIGURES],
        example=report.example,
    )


def changes(report: Report) -> Sequence[Mapping[str, Any]]:
    """First and last evaluation side by side, by part of the reward; empty with fewer than two."""
    scored = [item for item in report.evaluations if item.figures.get("reward_mean") is not None]
    if len(scored) < 2:
        return ()
    first, last = scored[0], scored[-1]
    parts = ["reward", *sorted((set(first.components) & set(last.components)) - {"reward"})]
    rows = []
    for part in parts:
        before = first.figures["reward_mean"] if part == "reward" else first.components[part]
        after = last.figures["reward_mean"] if part == "reward" else last.components[part]
        rows.append({"part": part, "first": first.name, "last": last.name, "before": before, "after": after})
    return rows
