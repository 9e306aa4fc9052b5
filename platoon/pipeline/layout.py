"""Where the files of a results folder are. A unit is a run of the recipe, or `eval-<name>` for one of its evaluations."""

from __future__ import annotations

import os
from pathlib import Path

# Of a command or a workflow that is told of none, in the current folder.
DEFAULT_RECIPE = Path("recipes/quickstart/recipe.yaml")
DEFAULT_RESULTS = Path("results")

EVALUATION_PREFIX = "eval-"

CONFIG = "config.yaml"
DATASETS = "datasets.lock.json"
PLAN = "plan.json"
IMAGE_MAP = "image_map.json"
INPUT_FILES = (CONFIG, DATASETS, PLAN, IMAGE_MAP)


def inputs_of(results: Path, unit: str) -> Path:
    """The folder of a unit's inputs."""
    return results / unit / "inputs"


def inputs_of_config(results: Path, config: Path) -> Path:
    """The folder of the inputs of a configuration that is prepared by itself: its own, and never a unit's, whose name has no dot.

    It lies as the configuration does below the working directory, or below the root where it is elsewhere.
    """
    path, here = Path(os.path.abspath(config)), Path.cwd()  # noqa: PTH100  because a link is another configuration than its target
    below = path.relative_to(here) if path.is_relative_to(here) else Path("outside", *path.parts[1:])
    return results / below.with_name(f"{below.name}.inputs")


def receipt_of(results: Path, run: str, evaluation: str | None = None) -> Path:
    """The receipt of a run, or of an evaluation of it."""
    return results / run / ("train.json" if evaluation is None else f"{EVALUATION_PREFIX}{evaluation}.json")
