"""Makes the inputs of units again, in an empty place with an empty cache, and compares the bytes with what is published."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from platoon.artifacts.reading import read_regular
from platoon.errors import ConfigError, NotPreparedError, Problem
from platoon.host.console import Console
from platoon.host.scratch import node_scratch
from platoon.pipeline.datasets import recorded_datasets
from platoon.pipeline.inputs import build_inputs
from platoon.pipeline.layout import DATASETS, INPUT_FILES, inputs_of
from platoon.pipeline.lock import read_datasets
from platoon.pipeline.recipe import Recipe
from platoon.site import Site

SHOWN_CHARACTERS = 200


@dataclass(frozen=True)
class Difference:
    """The first line where a file made again differs. line: from 1. published and rebuilt: its text, None for no such line."""

    unit: str
    file: str
    line: int
    published: str | None
    rebuilt: str | None

    def __str__(self) -> str:
        shown = [("no line" if text is None else text.strip()[:SHOWN_CHARACTERS]) for text in (self.published, self.rebuilt)]
        return f"{self.unit}/inputs/{self.file}:{self.line}: published {shown[0]}; made again {shown[1]}"


def verify(recipe: Recipe, base: Path, results: Path, units: Sequence[str], *, site: Site, console: Console) -> Difference | None:
    """The first difference over all units, None when every byte agrees. base: folder of the recipe.

    Raises ConfigError for a unit the recipe has not, NotPreparedError for inputs that were never published.
    """
    known = recipe.units
    if unknown := [unit for unit in units if unit not in known]:
        raise ConfigError(Problem(f"no run or evaluation is called {unknown[0]}", advice=f"known here: {', '.join(known)}"))
    for unit in units or known:
        console.progress("verify", unit)
        for name in INPUT_FILES:
            path = inputs_of(results, unit) / name
            if not path.is_file():
                advice = "run platoon prepare; or name the folder that the recipe was run with: --results DIR"
                raise NotPreparedError(Problem("is missing", file=str(path), advice=advice))
        node_scratch().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="platoon-verify-", dir=node_scratch()) as place:
            empty = replace(site, cache=Path(place) / "cache")
            rebuilt = Path(place) / "inputs"
            recorded = recorded_datasets(read_datasets(inputs_of(results, unit) / DATASETS), site)
            build_inputs(base / known[unit], rebuilt, empty, console, recorded=recorded)
            for name in INPUT_FILES:
                published = read_regular(inputs_of(results, unit) / name, None)
                if (found := compare(unit, name, published, read_regular(rebuilt / name, None))) is not None:
                    return found
    return None


def compare(unit: str, file: str, published: bytes, rebuilt: bytes) -> Difference | None:
    """The first line that differs, None for equal bytes."""
    if published == rebuilt:
        return None
    pairs = zip_longest(published.splitlines(keepends=True), rebuilt.splitlines(keepends=True))
    for number, (left, right) in enumerate(pairs, 1):
        if left != right:
            shown = [None if line is None else line.decode("utf-8", "backslashreplace") for line in (left, right)]
            return Difference(unit, file, number, *shown)
    raise AssertionError("bytes that differ have a line that differs")
