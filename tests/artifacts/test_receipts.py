"""Receipts that somebody edited: every fault is told with the file and its key."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from platoon.artifacts.receipts import read_receipt, write_receipt
from platoon.errors import ConfigError

pytestmark = pytest.mark.unit

WEIGHTS = {"state_path": "tinker://a/weights/1", "sampler_path": "tinker://a/sampler_weights/1", "policy_version": 3}
RECEIPTS: dict[Any, dict[str, Any]] = {
    "train": {
        "run": "main",
        "trainer": "rl",
        "steps": 3,
        "checkpoint": {**WEIGHTS, "weights": "sha256:w", "name": "final"},
        "policies": {"helper": WEIGHTS},
        "parent": None,
        "figures": {"reward_first": 0.5},
        "curve": [{"step": 1, "reward": 0.5}],
    },
    "evaluation": {"name": "after", "run": None, "figures": {}, "tasks": [{"task": "t"}], "example": None},
}


@pytest.mark.parametrize("kind", RECEIPTS)
def test_a_whole_receipt_is_read(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    write_receipt(path, kind, RECEIPTS[kind])
    assert read_receipt(path, kind) == {**RECEIPTS[kind], "rule": 1, "kind": kind}


MISSING: Any = object()


@pytest.mark.parametrize(
    ("kind", "key", "value", "told"),
    [
        *(("train", key, MISSING, "is missing") for key in ("run", "steps", "trainer", "checkpoint", "policies")),
        *(("train", f"checkpoint.{key}", MISSING, "is missing") for key in (*WEIGHTS, "weights")),
        *(("train", f"policies.helper.{key}", MISSING, "is missing") for key in WEIGHTS),
        ("train", "run", None, "must be a text"),
        ("train", "steps", "3", "must be a whole number"),
        ("train", "steps", True, "must be a whole number"),
        ("train", "checkpoint", [], "must be a mapping"),
        ("train", "policies.helper", None, "must be a mapping"),
        ("train", "parent", "warm", "must be a mapping"),
        ("train", "curve", {}, "must be a list"),
        ("train", "curve.0", 7, "must be a mapping"),
        ("train", "curve.0.step", MISSING, "is missing"),
        ("evaluation", "name", MISSING, "is missing"),
        ("evaluation", "run", 7, "must be a text"),
        ("evaluation", "figures", [1], "must be a mapping"),
        ("evaluation", "tasks.0", 1, "must be a mapping"),
    ],
)
def test_a_field_that_is_missing_or_of_another_type_is_named(kind: Any, key: str, value: Any, told: str, tmp_path: Path) -> None:
    body = {**copy.deepcopy(RECEIPTS[kind]), "rule": 1, "kind": kind}
    node: Any = body
    *way, last = key.split(".")
    for part in way:
        node = node[int(part)] if isinstance(node, list) else node[part]
    if value is MISSING:
        del node[last]
    else:
        node[int(last) if isinstance(node, list) else last] = value
    path = tmp_path / "r.json"
    path.write_text(json.dumps(body))
    with pytest.raises(ConfigError) as refused:
        read_receipt(path)
    assert str(refused.value) == f"{path}: {key}: {told} (run the command that writes it again)"


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text('{"rule": 1, "kind": "train", "checkpoint": {}}')
    with pytest.raises(ConfigError) as refused:
        read_receipt(path)
    assert len(refused.value.problems) == 8


@pytest.mark.parametrize("text", ["null", "[]", "{}", '{"rule": 1}', '{"rule": 1, "kind": []}', '{"rule": 2, "kind": "train"}'])
def test_what_is_no_receipt(text: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="not a receipt of rule 1"):
        read_receipt(path)
