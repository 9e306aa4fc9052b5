"""What the report shows, taken from receipts alone; the machine's directories are not asked again.

A receipt is a mapping as `artifacts.receipts` reads it. A value a receipt does not have is shown as missing, never as zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Run:
    """One run: its headline figures and one row a step. policies: those it trained beside main."""

    name: str
    trainer: str
    parent: str | None
    steps: int
    seed: int | None
    policies: Sequence[str]
    figures: Mapping[str, Any]
    curve: Sequence[Mapping[str, Any]]

    def series(self, *path: str) -> tuple[list[int], list[float]]:
        """Steps and values of a nested key of the curve, for the steps that have it."""
        pairs = [(int(row["step"]), value) for row in self.curve if (value := dig(row, *path)) is not None]
        return [step for step, _ in pairs], [float(value) for _, value in pairs]

    @property
    def ends(self) -> tuple[str, float, float] | None:
        """What the run is judged by, `reward` or else `loss`, at its first and at its last step.

        None when it recorded neither, and when its metrics were lost.
        """
        if self.figures.get("steps_without_metrics"):
            return None
        for name in ("reward", "loss"):
            _, values = self.series(name)
            if values:
                return name, values[0], values[-1]
        return None

    def keys(self, name: str) -> list[str]:
        """The keys of a mapping in the curve's rows (components, seconds, tokens), sorted."""
        return sorted({key for row in self.curve for key in row.get(name) or {}})


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of one run."""

    name: str
    run: str
    figures: Mapping[str, Any]
    tasks: Sequence[Mapping[str, Any]]
    example: Mapping[str, Any] | None

    @property
    def components(self) -> Mapping[str, float]:
        return self.figures.get("components") or {}

    @property
    def task_names(self) -> frozenset[str]:
        return frozenset(task["task"] for task in self.tasks)


@dataclass(frozen=True)
class Report:
    """Runs in the order of the recipe, evaluations in theirs."""

    runs: Sequence[Run]
    evaluations: Sequence[Evaluation]

    def ancestors(self, run: str) -> set[str]:
        """The runs that a run's weights come from, itself left out."""
        parents = {item.name: item.parent for item in self.runs}
        found: set[str] = set()
        while (parent := parents.get(run)) is not None and parent not in found:
            found.add(parent)
            run = parent
        return found

    @property
    def parts(self) -> Sequence[str]:
        """The parts that evaluations split the reward into, by name."""
        return sorted({key for item in self.evaluations for key in item.components} - {"reward"})

    @property
    def example(self) -> Evaluation | None:
        """The last evaluation that holds a whole trajectory."""
        return next((item for item in reversed(self.evaluations) if item.example), None)


def dig(value: Any, *path: str) -> Any:
    """A nested value, None where a key on the way is missing."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def report_of(receipts: Sequence[Mapping[str, Any]]) -> Report:
    """Sorts receipts into runs and evaluations. Raises KeyError for a receipt without its own fields."""
    runs, evaluations = [], []
    for receipt in receipts:
        figures = receipt.get("figures") or {}
        if receipt["kind"] == "train":
            runs.append(
                Run(
                    name=receipt["run"],
                    trainer=receipt["trainer"],
                    parent=dig(receipt, "parent", "run"),
                    steps=receipt["steps"],
                    seed=receipt.get("seed"),
                    policies=sorted(receipt.get("policies") or ()),
                    figures=figures,
                    curve=receipt.get("curve") or (),
                )
            )
        else:
            tasks = receipt.get("tasks") or ()
            evaluations.append(Evaluation(receipt["name"], receipt["run"], figures, tasks, receipt.get("example")))
    return Report(runs, evaluations)
