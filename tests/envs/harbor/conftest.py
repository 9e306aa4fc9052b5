"""Makers of Harbor task directories, and shorthands for what is fetched and locked of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from platoon.envs.harbor.fetch import fetch
from platoon.envs.harbor.lock import HarborLock, LockRow
from platoon.envs.harbor.options import HarborOptions
from platoon.envs.harbor.publish import HarborCache

MakeTask = Callable[..., Path]
Locked = Callable[..., tuple[LockRow, Mapping[str, Any]]]

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


@pytest.fixture
def cache(tmp_path: Path) -> HarborCache:
    return HarborCache(tmp_path / "cache" / "harbor")


def options(**more: Any) -> HarborOptions:
    return HarborOptions.parse({"dataset": "data", **more})


def make_dataset(make_task: MakeTask, base: Path, count: int = 4) -> Path:
    for number in range(count):
        toml = f'[metadata]\nfamily = "f{number // 2}"\nlevel = {number}\n'
        make_task(
            f"task-{number}",
            {"task.toml": toml, "environment/data.csv": f"a,b\n{number},2\n", "solution/solve.sh": "true\n"},
            base / "data",
        )
    return base / "data"


@pytest.fixture
def locked(make_task: MakeTask, tmp_path: Path, cache: HarborCache) -> Callable[..., tuple[LockRow, Mapping[str, Any]]]:
    """The row of one task and its stack plan, {} without one. compose, dockerfile, files: of the task; overlay: an overlay.toml."""

    def lock(
        compose: str | None = None,
        *,
        files: Mapping[str, str | None] | None = None,
        overlay: str | None = None,
        **options: Any,
    ) -> tuple[LockRow, Mapping[str, Any]]:
        make_task("task", {**(files or {}), **({"environment/docker-compose.yaml": compose} if compose else {})}, tmp_path / "data")
        if overlay is not None:
            (tmp_path / "over").mkdir(exist_ok=True)
            (tmp_path / "over/overlay.toml").write_text(overlay)
            options["overlays"] = ["over"]
        found = fetch(HarborOptions.parse({"dataset": "data", **options}), tmp_path, cache).lock
        assert HarborLock.from_bytes(found.to_bytes(), "lock") == found
        (row,) = found.tasks
        return row, found.plans[row.compose["plan"]] if row.compose else {}

    return lock
