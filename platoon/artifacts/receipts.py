"""Receipts: what a finished run or evaluation hands on, one canonical file each, published last.

A receipt holds no machine path and no host value. It names checkpoints by the paths the training service gave them; `weights` says
what they were made from: the identity of the run and the rows of all its steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from platoon.artifacts.canonical import read_json
from platoon.artifacts.publish import publish_json
from platoon.errors import ConfigError, Problem

RULE = 1
Kind = Literal["train", "evaluation"]
ADVICE = "run the command that writes it again"

WEIGHTS = {"state_path": str, "sampler_path": str, "policy_version": int}
# What readers count on, by kind: a type; the fields of a mapping; those of each row of a list, and of each value of a mapping by
# name ("*"). A type with None, and a list, may be absent.
FIELDS: Mapping[str, Mapping[str, Any]] = {
    "train": {
        "run": str,
        "trainer": str,
        "steps": int,
        "checkpoint": {**WEIGHTS, "weights": str},
        "policies": {"*": WEIGHTS},
        "parent": dict | None,
        "seed": int | None,
        "figures": dict | None,
        "curve": [{"step": int}],
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
NAMES: Mapping[Any, str] = {str: "a text", int: "a whole number", dict: "a mapping", list: "a list"}


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
    if faults := list(_faults(value, FIELDS[value["kind"]], "")):
        raise ConfigError(Problem(rule, key=key, file=str(path), advice=ADVICE) for key, rule in faults)
    return value


def _faults(value: Mapping[str, Any], fields: Mapping[str, Any], where: str) -> Iterator[tuple[str, str]]:
    """Key and rule of each field that is not as `fields` has it. where: the key of `value`, with a dot."""
    for key, wanted in ((key, fields["*"]) for key in value) if "*" in fields else fields.items():
        found = value.get(key)
        kinds = get_args(wanted) or (type(wanted) if isinstance(wanted, dict | list) else wanted,)
        if found is None and (len(kinds) > 1 or isinstance(wanted, list)):
            continue
        if not isinstance(found, kinds[0]) or isinstance(found, bool):
            yield f"{where}{key}", f"must be {NAMES[kinds[0]]}" if key in value else "is missing"
        elif isinstance(wanted, dict):
            yield from _faults(found, wanted, f"{where}{key}.")
        elif isinstance(wanted, list):
            rows = {str(number): row for number, row in enumerate(found)}
            yield from _faults(rows, {"*": wanted[0]}, f"{where}{key}.")
