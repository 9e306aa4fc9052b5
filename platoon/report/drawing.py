"""Draws each figure as SVG text with matplotlib. The same report gives the same bytes: no date, fixed ids, text as outlines.

A figure that has nothing to show says why: an empty place would look like a fault.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from platoon.config.numbers import score
from platoon.report.data import Report, Run, dig
from platoon.report.figures import AROUND_STEPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, GRID = "#1f2933", "#d9dfe5"
COLORS = ("#2463a8", "#d9822b", "#3a8f5c", "#8e5ea2", "#b23a48", "#6b7785")
STYLE = {
    "svg.hashsalt": "platoon",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 10.0,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}
SIZE_INCHES = (5.6, 2.9)
# What stands in a row over the axes, and what the sample of a line takes of it.
ROW_CHARACTERS, SAMPLE_CHARACTERS = 60, 5
# More bars than this have no room for a number lying flat on each.
FLAT_BARS = 9
# In the order of their lines: what lies on another line is dashed, so that both are seen where they are equal.
TOKENS = {"prompt": "prompts read", "completion": "replies sampled", "trained": "trained"}
AGES = {"mean": "mean", "max": "oldest"}
ABOVE_AXES: Mapping[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "handlelength": 1.2, "columnspacing": 1.2}
FAINT: Mapping[str, Any] = {"alpha": 0.45, "linewidth": 1}
BELOW: Mapping[str, Any] = {"linewidth": 4, "alpha": 0.45}
ABOVE: Mapping[str, Any] = {"linewidth": 1.8, "linestyle": (0, (3, 2))}
# Parts of a step's wall time and what they are called; other seconds of a step overlap, so they are not stacked.
WALL_PARTS = {"wait": "waiting for rollouts", "train": "training", "publish": "publishing", "save": "saving"}


@dataclass(frozen=True)
class Drawn:
    """svg: text, whatever there is to show. nothing: why there is nothing; empty for a figure that shows something."""

    svg: str
    nothing: str = ""


def draw(name: str, report: Report) -> Drawn:
    """A figure. Raises KeyError for a name that `figures.FIGURES` lacks."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        axes = figure.subplots()
        if nothing := _DRAWINGS[name](axes, report):
            axes.text(0.5, 0.5, nothing, ha="center", va="center", transform=axes.transAxes)
            axes.set_axis_off()
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return Drawn(text[text.index("<svg") :], nothing)


def _rl_run(report: Report) -> Run | None:
    """The last run that trained from rewards, else the last run."""
    return next((run for run in reversed(report.runs) if run.trainer == "rl"), report.runs[-1] if report.runs else None)


def _reward(axes: Axes, report: Report) -> str:
    run = _rl_run(report)
    if run is None or not run.series("reward")[0]:
        return "no run trained from rewards"
    lines = [("reward", run.series("reward"))]
    lines += [(key, run.series("components", key)) for key in run.keys("components") if key != "reward"]
    if not any(any(values) for _, (_, values) in lines):
        return f"the mean reward of each step of {run.name} was 0"
    for color, (label, (steps, values)) in zip(COLORS, lines, strict=False):
        _curve(axes, steps, values, color, label)
    axes.set(ylabel="mean")
    _from_zero(axes)
    _over_steps(axes, f"step of {run.name}")
    _legend_of_curves(axes)
    return ""


def _loss(axes: Axes, report: Report) -> str:
    runs = [run for run in report.runs if run.trainer == "sft" and run.series("loss")[0]]
    if not runs:
        return "no run learned from conversations"
    if not any(math.isfinite(value) for run in runs for value in run.series("loss")[1]):
        return "no loss was a number"
    for color, run in zip(COLORS, runs, strict=False):
        steps, values = run.series("loss")
        _curve(axes, steps, values, color, run.name)
        axes.annotate(score(values[-1]), (steps[-1], values[-1]), xytext=(4, 0), textcoords="offset points", va="center")
    axes.set(ylabel="nats a token", ylim=(0, None))
    _over_steps(axes, "step")
    _legend_of_curves(axes)
    return ""


def _evaluations(axes: Axes, report: Report) -> str:
    shown = [item for item in report.evaluations if item.figures.get("reward_mean") is not None]
    if not shown:
        return "no evaluation measured a reward"
    parts = report.parts
    if not any(any((item.figures["reward_mean"], *item.components.values())) for item in shown):
        return "the mean reward of each evaluation was 0"
    flat = len(shown) * (1 + len(parts)) <= FLAT_BARS
    width = 0.8 / len(shown)
    for index, item in enumerate(shown):
        values = [item.figures["reward_mean"], *(item.components.get(part, float("nan")) for part in parts)]
        places = [place + (index - (len(shown) - 1) / 2) * width for place in range(len(values))]
        bars = axes.bar(places, values, width * 0.92, color=COLORS[index % len(COLORS)], label=f"{item.name} ({item.run})")
        axes.bar_label(bars, fmt=score, padding=2, rotation=0 if flat else 90)
    room = ROW_CHARACTERS // (1 + len(parts))
    axes.set_xticks(range(1 + len(parts)), [textwrap.fill(part, max(room - 2, 1)) for part in ("reward", *parts)])
    axes.set(ylabel="mean over rollouts")
    _from_zero(axes, 1.08 if flat else 1.25)
    axes.grid(axis="x", visible=False)
    _legend_above(axes)
    return ""


def _staleness(axes: Axes, report: Report) -> str:
    run = _rl_run(report)
    series = {key: run.series("staleness", key) for key in AGES} if run is not None else {}
    if run is None or not any(steps for steps, _ in series.values()):
        return "no run recorded how old its rows were"
    if not any(any(values) for _, values in series.values()):
        return f"no ages of rows, as {run.name} trained each on the weights that sampled it"
    for color, (key, (steps, values)) in zip(COLORS, series.items(), strict=False):
        axes.step(steps, values, where="mid", color=color, label=AGES[key], **(ABOVE if key == "max" else BELOW))
    axes.set(ylabel="publications", ylim=(-0.05, max(1.0, axes.get_ylim()[1])))
    _over_steps(axes, f"step of {run.name}")
    _legend_above(axes)
    return ""


def _step_time(axes: Axes, report: Report) -> str:
    run = _rl_run(report)
    parts = [key for key in WALL_PARTS if run is not None and key in run.keys("seconds")]
    if run is None or not parts:
        return "no run recorded the times of its steps"
    steps = [int(row["step"]) for row in run.curve]
    below = [0.0] * len(steps)
    for color, part in zip(COLORS, parts, strict=False):
        values = [float(dig(row, "seconds", part) or 0.0) for row in run.curve]
        axes.bar(steps, values, 1.0, bottom=below, color=color, label=WALL_PARTS[part])
        below = [low + value for low, value in zip(below, values, strict=True)]
    if not any(below):
        return f"the steps of {run.name} took no time"
    # A stacked bar begins where another ends, which would leave no room above the highest.
    axes.set(ylabel="seconds", ylim=(0, 1.05 * max(below)))
    _over_steps(axes, f"step of {run.name}")
    _legend_above(axes)
    return ""


def _tokens(axes: Axes, report: Report) -> str:
    run = _rl_run(report)
    series = {key: run.series("tokens", key) for key in TOKENS if run.series("tokens", key)[0]} if run is not None else {}
    if run is None or not series:
        return "no run recorded its tokens"
    if not any(any(values) for _, values in series.values()):
        return f"{run.name} had no tokens"
    styles: Mapping[str, Mapping[str, Any]] = {"prompt": {"linewidth": 2}, "completion": BELOW, "trained": ABOVE}
    for color, (key, (steps, values)) in zip(COLORS, series.items(), strict=False):
        style = styles[key] if len(series) > 1 else {"linewidth": 2}
        axes.plot(steps, values, color=color, label=TOKENS[key], marker=_marker(steps), **style)
    axes.set(ylabel="tokens", ylim=(0, None))
    _over_steps(axes, f"step of {run.name}")
    _legend_above(axes)
    return ""


def _over_steps(axes: Axes, label: str) -> None:
    """The axis below counts steps, which are whole."""
    from matplotlib.ticker import MaxNLocator

    axes.set(xlabel=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _from_zero(axes: Axes, least_top: float = 0.0) -> None:
    """Shows zero, and all that lies below or above it."""
    bottom, top = axes.get_ylim()
    axes.set_ylim(min(0.0, bottom), max(least_top, top))


def _curve(axes: Axes, steps: list[int], values: list[float], color: str, label: str) -> None:
    """Each step faint, their average bold."""
    axes.plot(steps, values, color=color, marker=_marker(steps), **FAINT)
    axes.plot(steps, averaged(values), color=color, label=label, marker=_marker(steps), linewidth=2)


def _marker(steps: Sequence[int]) -> str:
    """A line of one point is not seen."""
    return "o" if len(steps) == 1 else ""


def _legend_of_curves(axes: Axes) -> None:
    """Names the lines, and what bold and faint mean."""
    axes.plot([], [], color=INK, label="average", linewidth=2)
    axes.plot([], [], color=INK, label="each step", **FAINT)
    _legend_above(axes)


def _legend_above(axes: Axes) -> None:
    """In one row where the names are short, else in columns that fit."""
    widths = [len(name) + SAMPLE_CHARACTERS for name in axes.get_legend_handles_labels()[1]]
    columns = len(widths) if sum(widths) <= ROW_CHARACTERS else max(1, ROW_CHARACTERS // max(widths))
    axes.legend(**ABOVE_AXES, ncols=columns)


def averaged(values: Sequence[float], around: int = AROUND_STEPS) -> list[float]:
    """The mean of each value and as many before it as after it, fewer towards the ends: no slope moves it up or down."""
    means = []
    for index in range(len(values)):
        reach = min(around, index, len(values) - 1 - index)
        window = values[index - reach : index + reach + 1]
        means.append(sum(window) / len(window))
    return means


# Each gives why it drew nothing, or nothing when it drew.
_DRAWINGS: Mapping[str, Callable[[Axes, Report], str]] = {
    "reward": _reward,
    "evaluations": _evaluations,
    "loss": _loss,
    "staleness": _staleness,
    "step_time": _step_time,
    "tokens": _tokens,
}
