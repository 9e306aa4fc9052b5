"""Generated files say what the models say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from platoon.pipeline.reference import PAGE, SCHEMAS, generated, write

pytestmark = pytest.mark.unit


def test_generated_files_are_fresh(checkout: Path) -> None:
    stale = [name for name, text in generated().items() if not (checkout / name).is_file() or (checkout / name).read_text() != text]
    assert not stale, "run make docs"


def test_writing_twice_changes_nothing(tmp_path: Path) -> None:
    assert sorted(write(tmp_path)) == sorted(generated())
    assert write(tmp_path) == []


def test_the_page_names_nested_keys_types_and_defaults() -> None:
    page = generated()[PAGE]
    for line in (
        "| `runs.NAME.from` | text or null | `null` | run whose last weights this one starts from |",
        "| `train.batch_size` | whole number | `32` | groups a step (`rl`), conversations a step (`sft`) |",
        "| `train.optimizer.learning_rate` | number | `3e-05` | step size; 0 trains nothing |",
        "| `environments.N.service_kwargs` | mapping |",
        "| `holdout.fraction` | number | required | share of the tasks that is held out, between 0 and 1 |",
    ):
        assert line in page


def test_schemas_refuse_unknown_keys_and_take_extends() -> None:
    schema = json.loads(generated()[f"{SCHEMAS}/recipe.schema.json"])
    assert schema["additionalProperties"] is False
    assert "extends" in schema["properties"]
    assert "from" in schema["$defs"]["RunEntry"]["properties"]
