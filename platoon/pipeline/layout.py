"""Where the files of a results folder are. A unit is a run of the recipe, or `eval-<name>` for one of its evaluations."""

from __future__ import annotations

from pathlib import Path

# Of a command or a workflow that is told of none, in the current folder.
DEFAULT_RECIPE = Path("recipes/quickstart/recipe.yaml")

EVALUATION_PREFIX = "eval-"

CONFIG = "config.yaml"
DATASETS = "datasets.lock.json"
PLAN = "plan.json"
IMAGE_MAP = "image_map.json"
INPUT_FILES = (CONFIG, DATASETS, PLAN, IMAGE_MAP)


def inputs_of(results: Path, unit: str) -> Path:
    """The folder of a unit's inputs."""
    return results / unit / "inputs"


def receipt_of(results: Path, run: str, evaluation: str | None = None) -> Path:
    """The receipt of a run, or of an evaluation of it."""
    return results / run / ("train.json" if evaluation is None else f"{EVALUATION_PREFIX}{evaluation}.json")
