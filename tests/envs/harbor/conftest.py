"""Makers of Harbor task directories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

MakeTask = Callable[..., Path]

FILES: Mapping[str, str] = {
    "task.toml": 'schema_version = "1.4"\n',
    "instruction.md": "Do it.\n",
    "environment/data.csv": "a,b\n1,2\n",
    "tests/test.sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n",
}


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    """Writes a task directory below the test's directory; a file given as None is left out."""

    def make(name: str = "task", files: Mapping[str, str | None] | None = None, root: Path | None = None) -> Path:
        directory = (root or tmp_path) / name
        for path, text in {**FILES, **(files or {})}.items():
            if text is not None:
                target = directory / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
        return directory

    return make


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Where a test's tasks go; their sandboxes lie beside it."""
    return tmp_path / "dataset"
