"""The same inputs from two clones: another path, umask, locale, time zone, home and order of files give the same bytes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.workflow.conftest import RECIPE, Clone, clone_of

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

UNITS = ("warm", "main", "eval-before", "eval-after")
FETCH_KEYS = {"environment", "lock", "lock_digest", "resolved", "tasks", "excluded", "runnable", "refused", "fetched", "holdout"}


def with_umask(clone: Clone, umask: str, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return clone.run("sh", "-c", f'umask {umask}; exec "$@"', "sh", *command, **env)


def prepared(clone: Clone, folder: Path, umask: str, **env: str) -> dict[str, bytes]:
    """The inputs of every unit of the recipe in `folder`, made by the workflow."""
    recipe = folder / Path(RECIPE).name
    command = [sys.executable, "-m", "snakemake", "--profile", "local", "--config", f"recipe={recipe}", "--", "prepare"]
    done = with_umask(clone, umask, *command, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {}
    for unit in UNITS:
        for path in (clone.root / "results" / unit / "inputs").iterdir():
            found[f"{unit}/{path.name}"] = path.read_bytes()
    return found


def fetched(clone: Clone, folder: Path) -> dict[str, Any]:
    """What `platoon harbor fetch` says of the one entry of the recipe's run."""
    done = clone.platoon("harbor", "fetch", str(folder / "rl.yaml"), "--json", "--site", "profiles/local/site.yaml")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder whose file system lists what was made last first, where most list by a hash of the name."""
    with TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


def in_another_order(source: Path, target: Path) -> None:
    """The same files with other modes and times, copied as they are listed or against their names: listed in another order."""
    shutil.copytree(source, target)
    if listed(target / "tasks") == listed(source / "tasks"):
        shutil.rmtree(target / "tasks")
        for path in sorted((source / "tasks").rglob("*"), reverse=True):
            place = target / path.relative_to(source)
            if path.is_file():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)
    for path in target.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700 if path.is_dir() else 0o600)
    assert listed(target / "tasks") != listed(source / "tasks")


def listed(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def test_two_clones_make_the_same_bytes(checkout: Path, tmp_path: Path, memory: Path) -> None:
    one = clone_of(checkout, tmp_path / "one")
    other = clone_of(checkout, tmp_path / "a place elsewhere" / "clone")
    folder = one.root / Path(RECIPE).parent
    in_another_order(folder, memory / "recipe")
    home = tmp_path / "home"
    home.mkdir()
    first = prepared(one, folder, "022", LC_ALL="C.UTF-8", TZ="UTC", PYTHONHASHSEED="1")
    second = prepared(other, memory / "recipe", "077", LC_ALL="C", TZ="Asia/Tokyo", HOME=str(home), PYTHONHASHSEED="2")
    assert set(first) == {
        f"{unit}/{name}" for unit in UNITS for name in ("config.yaml", "datasets.lock.json", "plan.json", "image_map.json")
    }
    assert [name for name in first if first[name] != second[name]] == []
    here, there = (fetched(clone, place) for clone, place in ((one, folder), (other, memory / "recipe")))
    assert set(here) == FETCH_KEYS
    assert here == {**there, "lock": here["lock"]}
    assert (here["environment"], here["tasks"], here["runnable"], here["fetched"]) == ("shell", 6, 6, 0)
    assert (here["holdout"]["train"], here["holdout"]["eval"], len(here["holdout"]["eval_digest"])) == (4, 2, 64)
    locks = [Path(one.root, here["lock"]), Path(other.root, there["lock"])]
    assert locks[0].read_bytes() == locks[1].read_bytes()
