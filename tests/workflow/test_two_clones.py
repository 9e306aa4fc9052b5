"""The same inputs from two clones: another path, umask, locale, time zone, home and order of files give the same bytes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.conftest import RECIPE, Clone, clone_of

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

UNITS = ("warm", "main", "eval-before", "eval-after")
FETCH_KEYS = {"environment", "lock", "lock_digest", "tasks", "runnable", "fetched", "holdout"}
FETCH = ("harbor", "fetch", "tests/recipes/tiny/rl.yaml", "--json", "--site", "profiles/local/site.yaml")


def with_umask(clone: Clone, umask: str, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return clone.run("sh", "-c", f'umask {umask}; exec "$@"', "sh", *command, **env)


def prepared(clone: Clone, umask: str, **env: str) -> dict[str, bytes]:
    """The inputs of every unit, made by the workflow."""
    command = [sys.executable, "-m", "snakemake", "--profile", "local", "--config", f"recipe={RECIPE}", "--", "prepare"]
    done = with_umask(clone, umask, *command, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {}
    for unit in UNITS:
        for path in (clone.root / "results" / unit / "inputs").iterdir():
            found[f"{unit}/{path.name}"] = path.read_bytes()
    return found


def in_another_order(directory: Path) -> None:
    """The same files made anew, last first, with other modes and times."""
    aside = directory.with_name("aside")
    directory.rename(aside)
    for source in sorted(aside.rglob("*"), reverse=True):
        target = directory / source.relative_to(aside)
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(0o600)
            os.utime(target, (1, 1))
    shutil.rmtree(aside)


def test_two_clones_make_the_same_bytes(checkout: Path, tmp_path: Path) -> None:
    one = clone_of(checkout, tmp_path / "one")
    other = clone_of(checkout, tmp_path / "a place elsewhere" / "clone")
    in_another_order(other.root / "tests/recipes/tiny/tasks")
    home = tmp_path / "home"
    home.mkdir()
    first = prepared(one, "022", LC_ALL="C.UTF-8", TZ="UTC", PYTHONHASHSEED="1")
    second = prepared(other, "077", LC_ALL="C", TZ="Asia/Tokyo", HOME=str(home), PYTHONHASHSEED="2")
    assert set(first) == {
        f"{unit}/{name}" for unit in UNITS for name in ("config.yaml", "datasets.lock.json", "plan.json", "image_map.json")
    }
    assert [name for name in first if first[name] != second[name]] == []
    told = [with_umask(clone, "022", sys.executable, "-m", "platoon", *FETCH) for clone in (one, other)]
    (here,), (there,) = ([json.loads(line) for line in done.stdout.splitlines()] for done in told)
    assert set(here) == FETCH_KEYS
    assert here == {**there, "lock": here["lock"]}
    assert (here["environment"], here["tasks"], here["runnable"], here["fetched"]) == ("shell", 6, 6, 0)
    assert (here["holdout"]["train"], here["holdout"]["eval"], len(here["holdout"]["eval_digest"])) == (4, 2, 64)
    locks = [Path(one.root, here["lock"]), Path(other.root, there["lock"])]
    assert locks[0].read_bytes() == locks[1].read_bytes()
