"""Writes the page: one HTML file that needs nothing else, readable without scripts, with every text of a rollout escaped."""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from platoon.artifacts.publish import publish_bytes
from platoon.config.numbers import change, number, score, seconds
from platoon.report.data import Evaluation, Report
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
        policies=any(run.policies for run in report.runs),
        evaluations=report.evaluations,
        changes=changes(report),
        parts=report.parts,
        figures=[(name, CAPTIONS[name], drawn[name]) for name in FIGURES if not drawn[name].nothing],
        not_drawn=list(dict.fromkeys(drawn[name].nothing for name in FIGURES if drawn[name].nothing)),
        example=report.example,
    )


def changes(report: Report) -> Sequence[Mapping[str, Any]]:
    """What training changed, by part of the reward: the last evaluation that has one of what its run came from, on the same tasks.

    Empty without such a pair: means over other tasks, or of runs side by side, are no change.
    """
    scored = [item for item in report.evaluations if item.figures.get("reward_mean") is not None]
    for last in reversed(scored):
        ancestors = report.ancestors(last.run)
        first = next((item for item in scored if item.run in ancestors and item.task_names == last.task_names), None)
        if first is not None:
            return _changes(first, last)
    return ()


def _changes(first: Evaluation, last: Evaluation) -> Sequence[Mapping[str, Any]]:
    pairs = {"mean reward": (first.figures["reward_mean"], last.figures["reward_mean"])}
    both = sorted((set(first.components) & set(last.components)) - {"reward"})
    pairs |= {part: (first.components[part], last.components[part]) for part in both}
    return [
        {"part": part, "first": first.name, "last": last.name, "before": before, "after": after}
        for part, (before, after) in pairs.items()
    ]
