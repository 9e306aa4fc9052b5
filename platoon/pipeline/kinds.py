"""The two kinds of configuration and their models; a file tells by its keys which it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from platoon.config.files import path_fault
from platoon.config.model import ConfigModel
from platoon.config.text import few
from platoon.errors import ConfigError, Problem

Kind = Literal["train", "evaluation"]
MARKS: Mapping[Kind, str] = {"train": "train", "evaluation": "inference"}
COMMANDS: Mapping[Kind, str] = {"train": "platoon train", "evaluation": "platoon eval"}
RECIPE_MARKS = ("runs", "evaluations")


def is_recipe(values: Mapping[str, Any]) -> bool:
    """Whether a loaded file is a recipe, by its keys."""
    return any(mark in values for mark in RECIPE_MARKS)


def kind_of(values: Mapping[str, Any], file: Path) -> Kind:
    """The kind of a configuration that was loaded from `file`. Raises ConfigError for a recipe and for what is no configuration."""
    kinds = [kind for kind, mark in MARKS.items() if mark in values]
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        rule = "is either a training configuration (train:) or an evaluation (inference:), not both"
        raise ConfigError(Problem(rule, key=MARKS[kinds[-1]], file=str(file)))
    if is_recipe(values):
        entries = [entry for mark in RECIPE_MARKS if isinstance(values.get(mark), dict) for entry in values[mark].values()]
        texts = [entry["config"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("config"), str)]
        # What it names may be no file, or the recipe itself.
        places = dict.fromkeys(file.parent / text for text in texts)
        named = [str(place) for place in places if path_fault(place, "file") is None and not _is_same(place, file)]
        advice = f"name one of its configurations here: {few(named)}" if named else "name a configuration here"
        rule = f"is a recipe, which `snakemake --profile local train --config recipe={file}` takes"
        raise ConfigError(Problem(rule, file=str(file), advice=advice))
    rule = "is neither a training configuration (it has no train:) nor an evaluation (no inference:)"
    raise ConfigError(Problem(rule, file=str(file)))


def _is_same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def model_of(kind: Kind) -> type[ConfigModel]:
    """The model of a kind; imported when it is needed."""
    if kind == "train":
        from platoon.train.config_defs.run import RunConfig

        return RunConfig
    from platoon.eval.config_defs import EvaluationConfig

    return EvaluationConfig
