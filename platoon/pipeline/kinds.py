"""The two kinds of configuration and their models; a file tells by its keys which it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from platoon.config.model import ConfigModel
from platoon.errors import Problem

Kind = Literal["train", "evaluation"]
MARKS: Mapping[Kind, str] = {"train": "train", "evaluation": "inference"}


def kind_of(values: Mapping[str, Any]) -> Kind | Problem:
    """The kind of a loaded configuration."""
    kinds = [kind for kind, mark in MARKS.items() if mark in values]
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        return Problem("is either a training configuration (train:) or an evaluation (inference:), not both", key="inference")
    return Problem("is neither a training configuration (it has no train:) nor an evaluation (no inference:)")


def model_of(kind: Kind) -> type[ConfigModel]:
    """The model of a kind; imported when it is needed."""
    if kind == "train":
        from platoon.train.config_defs.run import RunConfig

        return RunConfig
    from platoon.eval.config_defs import EvaluationConfig

    return EvaluationConfig
