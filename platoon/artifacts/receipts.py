"""Receipts: what a finished run or evaluation hands on, one canonical file each, published last.

A receipt holds no machine path and no host value. It names checkpoints by the paths the training service gave them; `weights` says
what they were made from: the identity of the run and the rows of all its steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from platoon.artifacts.canonical import read_json
from platoon.artifacts.publish import publish_json
from platoon.errors import ConfigError, Problem

RULE = 1
Kind = Literal["train", "evaluation"]


def write_receipt(path: Path, kind: Kind, body: Mapping[str, Any]) -> None:
    """Publishes a receipt atomically; an equal file is left untouched. Raises ValueError for what JSON cannot hold."""
    publish_json(path, {**body, "rule": RULE, "kind": kind})


def read_receipt(path: Path, kind: Kind | None = None) -> dict[str, Any]:
    """A receipt as a mapping. Raises ConfigError, naming the file, for another rule or kind."""
    value = read_json(path, "receipt")
    advice = "run the command that writes it again"
    if not isinstance(value, dict) or value.get("rule") != RULE or "kind" not in value:
        raise ConfigError(Problem(f"not a receipt of rule {RULE}", file=str(path), advice=advice))
    if kind is not None and value["kind"] != kind:
        raise ConfigError(Problem(f"a receipt of kind {kind!r} is needed, this is one of kind {value['kind']!r}", file=str(path)))
    return value
