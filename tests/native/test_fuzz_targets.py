"""The fuzz targets, their seeds and their manifest name each other."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit


def test_each_fuzz_target_is_built_and_has_a_seed(checkout: Path) -> None:
    fuzz = checkout / "native/fuzz"
    targets = {path.stem for path in (fuzz / "fuzz_targets").glob("*.rs")}
    programs = tomllib.loads((fuzz / "Cargo.toml").read_text())["bin"]
    assert {program["name"]: program["path"] for program in programs} == {name: f"fuzz_targets/{name}.rs" for name in targets}
    assert {folder.name for folder in (fuzz / "corpus").iterdir() if any(folder.iterdir())} == targets
