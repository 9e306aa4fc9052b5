"""`recipe.yaml`: which runs there are, what each starts from, and which evaluations look at them.

runs:
  warm: {config: sft.yaml}
  main: {config: rl.yaml, from: warm}
evaluations:
  before: {of: warm, config: eval.yaml}
  after: {of: main, config: eval.yaml}
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from platoon.config.load import load_model
from platoon.config.model import ConfigModel, nearest
from platoon.errors import Problem
from platoon.pipeline.layout import EVALUATION_PREFIX

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=64)]
ConfigPath = Annotated[str, Field(min_length=1, pattern=r"^[^\x00\n\r]+$")]


class RunEntry(ConfigModel):
    """One training run."""

    config: ConfigPath
    """training configuration, relative to the recipe"""
    parent: Name | None = Field(default=None, alias="from")
    """run whose last weights this one starts from"""


class EvaluationEntry(ConfigModel):
    """One evaluation of a run's last checkpoint."""

    of: Name
    """run that is evaluated"""
    config: ConfigPath
    """evaluation configuration, relative to the recipe"""


class Recipe(ConfigModel):
    """A whole recipe. Runs and evaluations keep the order of the file."""

    runs: dict[Name, RunEntry] = Field(min_length=1)
    """runs by name"""
    evaluations: dict[Name, EvaluationEntry] = Field(default_factory=dict)
    """evaluations by name"""

    def checks(self) -> Iterator[Problem]:
        for name, run in self.runs.items():
            if name.startswith(EVALUATION_PREFIX):
                yield Problem(f"a run's name does not start with {EVALUATION_PREFIX}", key=f"runs.{name}")
            if run.parent is not None and run.parent not in self.runs:
                yield Problem(f"no run is called {run.parent}", key=f"runs.{name}.from", advice=nearest(run.parent, self.runs))
        for name in self._in_a_circle():
            yield Problem("starts from itself, directly or through others", key=f"runs.{name}.from")
        for name, evaluation in self.evaluations.items():
            if evaluation.of not in self.runs:
                yield Problem(
                    f"no run is called {evaluation.of}", key=f"evaluations.{name}.of", advice=nearest(evaluation.of, self.runs)
                )

    @property
    def units(self) -> dict[str, str]:
        """Every unit and the configuration it is made from, runs first."""
        return {
            **{name: run.config for name, run in self.runs.items()},
            **{f"{EVALUATION_PREFIX}{name}": evaluation.config for name, evaluation in self.evaluations.items()},
        }

    def _in_a_circle(self) -> list[str]:
        circular = []
        for name in self.runs:
            seen: set[str] = set()
            node: str | None = name
            while node is not None and node in self.runs and node not in seen:
                seen.add(node)
                node = self.runs[node].parent
                if node == name:
                    circular.append(name)
                    break
        return circular


def read_recipe(path: Path) -> Recipe:
    """The recipe of a file. Raises ConfigError with every problem."""
    return load_model(Recipe, path)
