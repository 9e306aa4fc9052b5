"""`recipe.yaml`: which runs there are, what each starts from, and which evaluations look at them.

runs:
  warm: {config: sft.yaml}
  main: {config: rl.yaml, from: warm}
evaluations:
  before: {of: warm, config: eval.yaml}
  after: {of: main, config: eval.yaml}
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field

from platoon.config.files import path_fault
from platoon.config.load import load
from platoon.config.model import ConfigModel, nearest
from platoon.config.text import printable, short_path
from platoon.errors import ConfigError, Problem
from platoon.pipeline.kinds import MARKS, is_recipe, kind_of
from platoon.pipeline.layout import EVALUATION_PREFIX

T = TypeVar("T")

FILE = "recipe.yaml"
MOST_TOLD = 12
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
    loaded = load(path)
    if not is_recipe(loaded.values) and any(mark in loaded.values for mark in MARKS.values()):
        rule = f"is a configuration of kind {kind_of(loaded.values, path)}, not a recipe"
        raise ConfigError(Problem(rule, file=str(path), advice=nearest(str(path.parent / FILE), _recipes_near(path))))
    return loaded.build(Recipe)


def open_recipe(path: Path) -> Recipe:
    """The recipe of a file whose configurations are all there: what the workflow needs before it can plan anything.

    Raises ConfigError with every problem, which says what there is instead, and what to do next.
    """
    if (fault := path_fault(path, "file")) is not None:
        raise ConfigError(_no_recipe(path, fault))
    recipe = read_recipe(path)
    problems: dict[Problem, None] = {}
    for unit, config in recipe.units.items():
        read_named(path, unit, config, lambda file: kind_of(load(file).values, file), problems)
    if problems:
        raise ConfigError(problems)
    return recipe


def read_named(recipe: Path, unit: str, config: str, read: Callable[[Path], T], problems: dict[Problem, None]) -> T | None:
    """What `read` gives for the configuration of a unit; None when it cannot be read, and then `problems` holds why.

    What is wrong with the file as a whole is told at the key of the recipe that names it.
    """
    path, key = recipe.parent / config, config_key(unit)
    if (fault := path_fault(path, "file")) is not None:
        problems[_no_config(recipe, config, key, fault)] = None
        return None
    try:
        return read(path)
    except ConfigError as error:
        for problem in error.problems:
            of_file = problem.file == str(path) and not problem.key
            rule = f"{short_path(problem.file)}: {problem.rule}"
            problems[Problem(rule, key, str(recipe), problem.advice) if of_file else problem] = None
        return None


def raw_units(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The units of a recipe that is not whole, each with the configuration it names. values: as they were loaded."""
    for section, prefix in (("runs", ""), ("evaluations", EVALUATION_PREFIX)):
        entries = values.get(section)
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            config = entry.get("config") if isinstance(entry, dict) else None
            if isinstance(config, str) and config and config.isprintable():
                yield f"{prefix}{printable(name)}", config


def _no_config(path: Path, config: str, key: str, fault: str) -> Problem:
    """Why a path that a recipe names is no configuration, with those that are near it."""
    if fault.startswith("no such"):
        fault = "no such file"
    elif path_fault(path.parent / config, "directory") is None:
        fault = "is a folder"
    rule = f"{fault}: {short_path(config)}"
    return Problem(rule, key=key, file=str(path), advice=nearest(config, _files_near(path, config)))


def _no_recipe(path: Path, fault: str) -> Problem:
    """Why a path is no recipe, with those that are near it."""
    shown = short_path(str(path))
    if not fault.startswith("no such") and path_fault(path, "directory") is not None:
        return Problem(fault, file=shown)
    if path.is_dir() and (path / FILE).is_file():
        return Problem("is a folder", file=shown, advice=f"its recipe is {path / FILE}")
    rule = "is a folder without a recipe.yaml" if path.is_dir() else "no such recipe"
    return Problem(rule, file=shown, advice=nearest(str(path), _recipes_near(path)))


def _recipes_near(path: Path) -> list[str]:
    roots = _directories(path, path.parent, path.parent.parent, Path("recipes"))
    return sorted({str(file) for root in roots for pattern in (FILE, f"*/{FILE}") for file in root.glob(pattern)})[:MOST_TOLD]


def config_key(unit: str) -> str:
    """Where a recipe names the configuration of a unit."""
    if unit.startswith(EVALUATION_PREFIX):
        return f"evaluations.{unit.removeprefix(EVALUATION_PREFIX)}.config"
    return f"runs.{unit}.config"


def _files_near(recipe: Path, config: str) -> list[str]:
    """Configurations in the folder that is named or should hold one, else beside the recipe, as the recipe would name them."""
    place = recipe.parent / config
    for folder in _directories(place, place.parent, recipe.parent):
        files = [file for file in folder.glob("*.yaml") if file != recipe and path_fault(file, "file") is None]
        if files:
            return sorted(os.path.relpath(file, recipe.parent) for file in files)[:MOST_TOLD]
    return []


def _directories(*paths: Path) -> list[Path]:
    return [path for path in paths if path_fault(path, "directory") is None]
