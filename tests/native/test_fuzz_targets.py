"""The fuzz targets, their seeds, their manifest and their counts name each other."""

from __future__ import annotations

import importlib.util
import json
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.unit


def test_each_fuzz_target_is_built_and_has_a_seed(checkout: Path) -> None:
    fuzz = checkout / "native/fuzz"
    targets = {path.stem for path in (fuzz / "fuzz_targets").glob("*.rs")}
    programs = tomllib.loads((fuzz / "Cargo.toml").read_text())["bin"]
    assert {program["name"]: program["path"] for program in programs} == {name: f"fuzz_targets/{name}.rs" for name in targets}
    assert {folder.name for folder in (fuzz / "corpus").iterdir() if any(folder.iterdir())} == targets


@pytest.fixture
def fuzz(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program that runs the targets."""
    spec = importlib.util.spec_from_file_location("fuzz_run", checkout / "native/fuzz/run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_counts_are_kept_a_row_a_target(fuzz: ModuleType, tmp_path: Path) -> None:
    place = tmp_path / "fuzz.json"
    place.write_text(json.dumps([{"target": "gone"}, {"target": "sif_objects", "executions": 1}]))
    fuzz.keep(place, "0123", fuzz.Outcome("sif_objects", 7, 2))
    fuzz.keep(place, "4567", fuzz.Outcome("content_hash", 5, 1, "found something", "a crash"))
    assert json.loads(place.read_text()) == [
        {"target": "content_hash", "executions": 5, "seconds": 1, "result": "found something", "commit": "4567"},
        {"target": "sif_objects", "executions": 7, "seconds": 2, "result": "clean", "commit": "0123"},
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["fuzz.json"]


@pytest.mark.parametrize(
    ("end", "result"),
    [
        ("exit 0", "clean"),
        ("exit 77", "found something"),
        ("kill -ABRT $$", "found something"),
        ("kill -TERM $$", "killed (SIGTERM)"),
    ],
)
def test_the_end_of_a_target_says_whether_it_found_something(fuzz: ModuleType, tmp_path: Path, end: str, result: str) -> None:
    target = tmp_path / "content_hash"
    target.write_text(f"#!/bin/sh\necho '#5 NEW'\n{end}\n")
    target.chmod(0o755)
    fuzz.HERE = tmp_path
    outcome = fuzz.run(target, 1)
    assert (outcome.result, outcome.executions) == (result, 5)
