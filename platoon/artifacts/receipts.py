"""Receipts: what a finished run or evaluation hands on, one canonical file each, published last.

A receipt holds no machine path and no host value. It names checkpoints by the paths the training service gave them; `weights` says
what they were made from: the identity of the run and the rows of all its steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from platoon.artifacts.canonical import read_json
from platoon.artifacts.forms import Form, form_faults
from platoon.artifacts.publish import publish_json
from platoon.errors import ConfigError, Problem

RULE = 1
Kind = Literal["train", "evaluation"]
ADVICE = "run the command that writes it again"

WEIGHTS = {"state_path": str, "sampler_path": str, "policy_version": int}
# What readers count on, by kind.
FIELDS: Mapping[str, Form] = {
    "train": {
        "run": str,
        "trainer": str,
        "steps": int,
        "checkpoint": {**WEIGHTS, "weights": str},
        "policies": {"*": WEIGHTS},
        "parent": dict | None,
        "seed": int | None,
        "figures": dict | None,
        "curve": [{"step": int, "reward": float | None, "rollouts": int | None}],
    },
    "evaluation": {
        "name": str,
        "run": str | None,
        "step": int | None,
        "seed": int | None,
        "figures": dict | None,
        "tasks": [{}],
        "example": dict | None,
    },
}


def write_receipt(path: Path, kind: Kind, body: Mapping[str, Any]) -> None:
    """Publishes a receipt atomically; an equal file is left untouched. Raises ValueError for what JSON cannot hold."""
    publish_json(path, {**body, "rule": RULE, "kind": kind})


def read_receipt(path: Path, kind: Kind | None = None) -> dict[str, Any]:
    """A receipt as a mapping, with the fields of its kind.

    Raises ConfigError, naming the file, for another rule or kind, and with every field that is missing or of another type.
    """
    value = read_json(path, "receipt")
    if not isinstance(value, dict) or value.get("rule") != RULE or value.get("kind") not in tuple(FIELDS):
        raise ConfigError(Problem(f"not a receipt of rule {RULE}", file=str(path), advice=ADVICE))
    if kind is not None and value["kind"] != kind:
        raise ConfigError(Problem(f"a receipt of kind {kind!r} is needed, this is one of kind {value['kind']!r}", file=str(path)))
    if faults := list(form_faults(value, FIELDS[value["kind"]])):
        raise ConfigError(Problem(rule, key=key, file=str(path), advice=ADVICE) for key, rule in faults)
    return value
